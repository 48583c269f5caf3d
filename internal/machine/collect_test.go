package machine

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

// secrets stand in every place of a machine that Collect looks at or passes by.
var secrets = []string{
	"topsecret", "board-17", "00:11:22:aa:bb:cc", "001122aabbcc", "192.0.2.55", "2001:db8::5", "fe80::1%eth0", "s3cr3t", "customer", "vault",
}

func secretMachine(t *testing.T) (Source, Snapshot) {
	t.Helper()
	s := tree(t, map[string]string{
		"proc/sys/kernel/osrelease":     "6.18.44-board-17\n",
		"proc/sys/kernel/version":       "#1 SMP PREEMPT_DYNAMIC Mon Nov 30 15:17:45 UTC 2026\n",
		"proc/sys/kernel/arch":          "x86_64\n",
		"proc/sys/kernel/hostname":      "board-17\n",
		"proc/cmdline":                  "root=/dev/mapper/vault ip=192.0.2.55::192.0.2.1 preempt=none rcupdate.rcu_cpu_stall_timeout=21 key=topsecret luks.key=s3cr3t nohz_full=1 quiet -- --token s3cr3t preempt=full\n",
		"proc/config.gz":                zip(t, "CONFIG_HZ=250\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_NONE=y\nCONFIG_CMDLINE=\"key=topsecret\"\nCONFIG_DEFAULT_HOSTNAME=\"board-17\"\n"),
		"proc/14/comm":                  "rcu_preempt\n",
		"proc/900/comm":                 "customer-daemon\n",
		"proc/900/cmdline":              "customer\x00--password\x00s3cr3t\x00",
		"proc/net/arp":                  "192.0.2.55 0x1 0x2 00:11:22:aa:bb:cc * eth0\n",
		"sys/class/net/eth0/address":    "00:11:22:aa:bb:cc\n",
		"sys/class/net/eth0/ifalias":    "customer uplink\n",
		"sys/kernel/rcu_expedited":      "0\n",
		"sys/kernel/debug/secret":       "topsecret\n",
		"sys/devices/system/cpu/online": "0-1\n",
		"etc/shadow":                    "topsecret\n",
	})
	s.Kmsg = "[    0.0] Kernel command line: key=topsecret\n[    0.1] Dynamic Preempt: none\n[    0.2] eth0: 00:11:22:aa:bb:cc\n" +
		"[    0.3] rcu: Preemptible hierarchical RCU implementation.\n" +
		"[    0.4] clocksource: jiffies: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 7645041785100000 ns\n" +
		"[    9.4] CPU: 0 UID: 0 PID: 900 Comm: customer-daemon Not tainted 6.18.44-board-17 #1 PREEMPT(none)\n"
	shot := Snapshot{
		Survey: Survey{
			Facts: Facts{Cmdline: "key=topsecret"},
			Devices: []Device{{Name: "enx001122aabbcc", Index: 2, Threaded: new(1), NAPIs: []NAPI{{ID: 9, Index: 2, PID: new(88)}}},
				{Name: "wg-192.0.2.55", Index: 3}},
			Threads: []KThread{{PID: 88, Name: "napi/enx001122aabbcc-9", Device: "enx001122aabbcc", CPUs: "0-1"}},
			Params:  map[string]string{"sys/kernel/rcu_expedited": "0"},
		},
		Watch: Watch{Took: 500e6, Threads: []Watched{{PID: 88, Name: "napi/enx001122aabbcc-9", Longest: 450e6}}},
		Log:   json.RawMessage(`{"summary":"on Board-17.example.net at 2001:db8::5, fe80::1%eth0"}`),
	}
	return s, shot
}

func TestCollectKeepsNoSecrets(t *testing.T) {
	s, shot := secretMachine(t)
	var b bytes.Buffer
	names, err := Collect(&b, s, "board-17.example.net", shot)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(strings.ToLower(b.String()), secret) {
			t.Errorf("the snapshot has %q", secret)
		}
	}
	want := []string{"napistall/kmsg", "napistall/snapshot.json", "proc/14/comm", "proc/cmdline", "proc/config.gz", "proc/sys/kernel/arch", "proc/sys/kernel/osrelease",
		"proc/sys/kernel/version", "sys/devices/system/cpu/online", "sys/kernel/rcu_expedited"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestSnapshotRoundTrip: what decides survives, and the same device stays the same device.
func TestSnapshotRoundTrip(t *testing.T) {
	s, shot := secretMachine(t)
	var b bytes.Buffer
	if _, err := Collect(&b, s, "board-17", shot); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Unpack(strings.NewReader(zip(t, b.String())), dir); err != nil { // gzip -9 board.tar
		t.Fatal(err)
	}
	got, err := ReadSnapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := got.Survey.Facts
	if f.Release != "6.18.44-HOST" || f.Preempt != rcu.None || !f.Dynamic || f.HZ != 250 || f.Flavor != rcu.Preempt ||
		f.Cmdline != "preempt=none rcupdate.rcu_cpu_stall_timeout=21 nohz_full=1 quiet" {
		t.Errorf("facts: %+v", f)
	}
	all := strings.Join(f.Evidence, "\n")
	for _, want := range []string{"the boot log says Dynamic Preempt: none", "a backtrace in the kernel log says PREEMPT(none)", "/proc/config.gz says CONFIG_PREEMPT_DYNAMIC=y, and the command line preempt=none"} {
		if !strings.Contains(all, want) {
			t.Errorf("evidence lacks %q:\n%s", want, all)
		}
	}
	v := got.Survey
	if v.Devices[0].Name != "enx1" || v.Threads[0].Device != "enx1" || v.Threads[0].Name != "napi/enx1-9" || v.Devices[1].Name != "wg-IP3" || got.Watch.Threads[0].Longest != 450e6 {
		t.Errorf("survey %+v\nwatch %+v", v, got.Watch)
	}
}

// TestReadCopies: a directory with copies of /proc and /sys is a machine too.
func TestReadCopies(t *testing.T) {
	s := tree(t, map[string]string{
		"proc/sys/kernel/osrelease": "6.6.86\n", "proc/sys/kernel/version": "#0 SMP Sun\n", "proc/2/comm": "kthreadd\n",
		"proc/88/comm": "napi/qdma_eth-3\n", "proc/88/stat": statLine(88, "napi/qdma_eth-3", "S", kernelThread, 0, 0, 0, 0, 0, 0),
		"sys/class/net/lan1/ifindex": "4\n", "sys/class/net/lan1/threaded": "0\n",
	})
	got, err := ReadSnapshot(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	v := got.Survey
	if v.Facts.Release != "6.6.86" || len(v.Threads) != 1 || v.Threads[0].Device != "qdma_eth" || len(v.Devices) != 1 || v.Netlink == "" {
		t.Errorf("survey %+v", v)
	}
	if _, err := ReadSnapshot(t.TempDir()); err == nil || !strings.Contains(err.Error(), "osrelease") {
		t.Errorf("an empty directory: %v; want an error about osrelease", err)
	}
	for name, text := range map[string]string{"no JSON": "{", "another format": `{"format":"napistall/snapshot/2"}`} {
		bad := tree(t, map[string]string{"proc/sys/kernel/osrelease": "6.6.86\n", "napistall/snapshot.json": text})
		if _, err := ReadSnapshot(bad.Root); err == nil || !strings.Contains(err.Error(), "snapshot.json") {
			t.Errorf("%s: %v; want an error about snapshot.json", name, err)
		}
	}
}

func TestScrub(t *testing.T) {
	s := newScrubber("gw1.example.org")
	for text, want := range map[string]string{
		"gw1 and gw1.example.org, GW1": "HOST and HOST, HOST",
		"egw1x stays":                  "egw1x stays",
		"15:17:45 UTC":                 "15:17:45 UTC",
		"0000:00:1f.6 eth0":            "0000:00:1f.6 eth0",
		"6.12.117-1~deb12u1":           "6.12.117-1~deb12u1",
		"mask 00000000,0000000c":       "mask 00000000,0000000c",
		"to 10.0.0.7:80":               "to IP1:80",
		"again 10.0.0.7 and 10.0.0.8.": "again IP1 and IP2.",
		"de:ad:be:ef:00:01":            "MAC1",
		"wlxdeadbeef0001":              "wlx1",
		"longest 450000000":            "longest 450000000",
	} {
		if got := newScrubber("gw1.example.org").text(text); got != want {
			t.Errorf("text(%q) = %q; want %q", text, got, want)
		}
	}
	if a, b := s.text("10.0.0.7"), s.text("x 10.0.0.8 10.0.0.7"); a != "IP1" || b != "x IP2 IP1" {
		t.Errorf("%q, %q; want the same word for the same address", a, b)
	}
	if got := newScrubber("vm").text("vm.swappiness"); got != "vm.swappiness" {
		t.Errorf("a host called vm: %q", got)
	}
}

// archive makes a tar of headers, each with its name as content.
func archive(t testing.TB, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = int64(len(h.Name))
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(h.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil && !strings.Contains(err.Error(), "missed writing") {
		t.Fatal(err)
	}
	return &b
}

func TestUnpackRefuses(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	var many []tar.Header
	for i := range maxSnapshotFiles + 1 {
		many = append(many, file("f/"+string(rune('a'+i%26))+strings.Repeat("x", i/26)))
	}
	for name, in := range map[string]io.Reader{
		"a way out":         archive(t, file("../out")),
		"a way out, later":  archive(t, file("a"), file("a/../../out")),
		"an absolute name":  archive(t, file("/etc/out")),
		"a link":            archive(t, tar.Header{Name: "l", Linkname: "/etc", Typeflag: tar.TypeSymlink}),
		"a hard link":       archive(t, tar.Header{Name: "l", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}),
		"a device":          archive(t, tar.Header{Name: "d", Typeflag: tar.TypeChar}),
		"twice":             archive(t, file("a"), file("a")),
		"no archive":        strings.NewReader(strings.Repeat("x", 2000)),
		"nothing":           strings.NewReader(""),
		"no gzip":           strings.NewReader("\x1f\x8b"),
		"a long gzip":       strings.NewReader(zip(t, strings.Repeat("\x00", maxSnapshot+1024))),
		"a long name":       archive(t, tar.Header{Name: "../" + strings.Repeat("x", 5000), Typeflag: tar.TypeReg}),
		"cut":               bytes.NewReader(archive(t, file("ab")).Bytes()[:513]),
		"more than a file":  archive(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: maxFile + 1}),
		"too many of them":  archive(t, many...),
		"a file as its dir": archive(t, file("a"), file("a/b")),
	} {
		dir := filepath.Join(t.TempDir(), "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		err := Unpack(in, dir)
		if err == nil || strings.HasSuffix(err.Error(), ": EOF") || len(err.Error()) > 200 || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: Unpack = %v; want a short error that says what is wrong", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "../out")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something outside", name)
		}
	}
}

func FuzzWalkArchive(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "proc/sys/kernel/osrelease", Typeflag: tar.TypeReg}, tar.Header{Name: "napistall/", Typeflag: tar.TypeDir}).Bytes())
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var total int64
		_ = walkArchive(bytes.NewReader(b), func(name string, content io.Reader) error {
			if !filepath.IsLocal(name) || name != path.Clean(name) {
				t.Errorf("name %q", name)
			}
			n, err := io.Copy(io.Discard, content)
			total += n
			return err
		})
		if total > maxSnapshot {
			t.Errorf("%d bytes", total)
		}
	})
}

// FuzzKept: what is kept of foreign texts is in them, and keeping again changes nothing.
func FuzzKept(f *testing.F) {
	f.Add("Dynamic Preempt: none\n", "preempt=none x=y\n", "napi/enx001122aabbcc-9 10.0.0.1 ::1 host7")
	f.Fuzz(func(t *testing.T, kmsg, cmdline, text string) {
		for word := range strings.FieldsSeq(keptArguments(cmdline)) {
			if !slices.Contains(strings.Fields(cmdline), word) {
				t.Errorf("kept %q of %q", word, cmdline)
			}
		}
		if again := bootLines(bootLines(kmsg)); again != bootLines(kmsg) {
			t.Errorf("boot lines of boot lines: %q; of %q", again, kmsg)
		}
		clean := newScrubber("host7").text(text)
		if hardware.MatchString(clean) || byHardware.MatchString(clean) || strings.Contains(clean, "host7 ") {
			t.Errorf("scrubbed %q to %q", text, clean)
		}
	})
}
