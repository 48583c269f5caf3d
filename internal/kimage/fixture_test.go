package kimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blakesmith/ar"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// compress packs data as a file with the extension ext would be.
func compress(t testing.TB, ext string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ext {
	case "":
		return data
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	default:
		t.Fatalf("compress with %q", ext)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fakeModule returns a 64-bit ELF file whose only content is a .modinfo section.
func fakeModule(name, release string, depends ...string) []byte {
	info := "name=" + name + "\x00depends=" + strings.Join(depends, ",") + "\x00vermagic=" + release + " SMP mod_unload\x00"
	const names = "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	le := binary.LittleEndian
	put := func(v any) { _ = binary.Write(&b, le, v) } // a Buffer takes everything
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	at := uint64(64 + len(info) + len(names))
	put([]uint16{1, 62}) // ET_REL, x86-64
	put(uint32(1))
	put([]uint64{0, 0, at})
	put(uint32(0))
	put([]uint16{64, 0, 0, 64, 3, 2})
	b.WriteString(info + names)
	section := func(name, kind uint32, offset, size uint64) {
		put([]uint32{name, kind})
		put([]uint64{0, 0, offset, size})
		put([]uint32{0, 0})
		put([]uint64{1, 0})
	}
	section(0, 0, 0, 0)
	section(1, 1, 64, uint64(len(info)))
	section(10, 3, uint64(64+len(info)), uint64(len(names)))
	return b.Bytes()
}

// fakeBzImage returns an x86 kernel image with a version string and a payload.
func fakeBzImage(version string, payload []byte) []byte {
	b := make([]byte, 0x400, 0x400+len(payload))
	le := binary.LittleEndian
	b[0x1f1] = 1 // one setup sector after the boot sector: the payload is at 0x400
	copy(b[0x202:], "HdrS")
	le.PutUint16(b[0x206:], 0x20f)
	le.PutUint16(b[0x20e:], 0x100)
	le.PutUint16(b[0x236:], 1)
	le.PutUint32(b[0x24c:], uint32(len(payload)))
	copy(b[0x300:0x3ff], version)
	return append(b, payload...)
}

// A debFileSpec is one file in a fake package.
type debFileSpec struct {
	name string
	data []byte
}

// fakeDeb writes a package whose data is compressed as ext says.
func fakeDeb(t testing.TB, name, ext string, files ...debFileSpec) {
	t.Helper()
	var data bytes.Buffer
	tw := tar.NewWriter(&data)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := ar.NewWriter(&b)
	if err := w.WriteGlobalHeader(); err != nil {
		t.Fatal(err)
	}
	members := []debFileSpec{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.gz", compress(t, ".gz", nil)},
		{"data.tar" + ext, compress(t, ext, data.Bytes())},
	}
	for _, m := range members {
		if err := w.WriteHeader(&ar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.data)), ModTime: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(m.data); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, name, b.Bytes())
}

func writeFile(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// fakeConfig is a configuration like that of Debian's amd64 kernels.
const fakeConfig = `# Linux/x86 Kernel Configuration
CONFIG_PREEMPT_BUILD=y
CONFIG_ARCH_HAS_PREEMPT_LAZY=y
# CONFIG_PREEMPT is not set
CONFIG_PREEMPT_LAZY=y
CONFIG_PREEMPT_DYNAMIC=y
CONFIG_PREEMPT_RCU=y
CONFIG_HZ=250
CONFIG_RCU_CPU_STALL_TIMEOUT=21
CONFIG_RCU_EXP_CPU_STALL_TIMEOUT=0
CONFIG_VETH=m
CONFIG_DUMMY=m
CONFIG_BPF_SYSCALL=y
CONFIG_PACKET=y
`

// fakeModules are the modules of a fake kernel, in directory dir of a package: one more than needed,
// and one that no list of ours foresees (hidden).
func fakeModules(t testing.TB, dir, uname, ext string) []debFileSpec {
	t.Helper()
	var files []debFileSpec
	for _, m := range []struct {
		name    string
		depends []string
	}{
		{"8021q", []string{"garp", "mrp"}}, {"garp", []string{"stp"}}, {"stp", []string{"llc"}}, {"llc", nil}, {"mrp", nil},
		{"dummy", nil}, {"hidden", []string{"deeper"}}, {"deeper", nil}, {"veth", []string{"hidden"}}, {"virtio-mmio", nil}, {"e1000", nil},
	} {
		data := fakeModule(m.name, uname, m.depends...)
		files = append(files, debFileSpec{dir + "/kernel/" + m.name + ".ko" + ext, compress(t, ext, data)})
	}
	return files
}

// wantOrder is what a trial needs of fakeModules.
func wantOrder() []string {
	return []string{"virtio_mmio", "dummy", "deeper", "hidden", "veth", "llc", "stp", "garp", "mrp", "8021q"}
}

func moduleNames(img *Image) []string {
	var names []string
	for _, m := range img.Modules {
		names = append(names, m.Name)
	}
	return names
}

// A fakeApt stands in for apt-get and apt-cache: it serves packages from a directory and writes down
// how it was called.
type fakeApt struct {
	t    *testing.T
	dir  string
	root string // with a sources.list of its own
}

const aptGetScript = `#!/bin/sh
echo "apt-get $4 $5" >> "$FAKE_APT/calls"
conf=$3
[ -r "$conf" ] || { echo "W: Unable to read $conf" >&2; exit 100; }
shift 3
if [ -s "$FAKE_APT/$1-fails" ]; then
	n=$(head -n 1 "$FAKE_APT/$1-fails")
	if [ "$n" -gt 0 ]; then
		{ echo $((n-1)); tail -n +2 "$FAKE_APT/$1-fails"; } > "$FAKE_APT/next"
		mv "$FAKE_APT/next" "$FAKE_APT/$1-fails"
		tail -n +2 "$FAKE_APT/$1-fails" >&2
		exit 100
	fi
fi
case $1 in
update)
	[ -e "$FAKE_APT/InRelease" ] && cp "$FAKE_APT/InRelease" "$(dirname "$conf")/state/lists/mirror_InRelease"
	exit 0;;
download)
	shift
	for p; do
		cp "$FAKE_APT/pool/${p%%=*}.deb" . || exit 100
		[ -e "$FAKE_APT/hang" ] && { echo > "$FAKE_APT/hang"; exec sleep 100; }
	done
	exit 0;;
esac
exit 1
`

const aptCacheScript = `#!/bin/sh
echo "apt-cache $3" >> "$FAKE_APT/calls"
[ -r "$2" ] || { echo "W: Unable to read $2" >&2; exit 100; }
shift 2
case $1 in
pkgnames) sed -n 's/^Package: //p' "$FAKE_APT/Packages" | grep "^$2";;
show)
	shift
	out=$(awk -v want=" $* " 'BEGIN{RS="";ORS="\n\n"} {if (index(want, " " substr($1 " " $2, 10) " ")) print}' "$FAKE_APT/Packages")
	[ -n "$out" ] || { echo "E: No packages found" >&2; exit 100; }
	echo "$out";;
esac
exit 0
`

// newFakeApt puts the scripts first in PATH.
func newFakeApt(t *testing.T) *fakeApt {
	t.Helper()
	f := &fakeApt{t: t, dir: t.TempDir(), root: t.TempDir()}
	for name, text := range map[string]string{"apt-get": aptGetScript, "apt-cache": aptCacheScript} {
		name = filepath.Join(f.dir, "bin", name)
		writeFile(t, name, []byte(text))
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(f.root, "etc/apt/sources.list"), []byte("deb http://mirror.invalid/debian trixie main\n"))
	t.Setenv("FAKE_APT", f.dir)
	t.Setenv("PATH", filepath.Join(f.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return f
}

// store returns a store in a fresh directory that uses f; what it logs goes to the returned function.
func (f *fakeApt) store() (Store, func() string) {
	var log strings.Builder
	s := Store{Dir: filepath.Join(f.t.TempDir(), "kernels"), root: f.root, pause: time.Millisecond}
	s.Log = func(text string) { fmt.Fprintln(&log, text) }
	return s, log.String
}

// calls returns what was called since the last time, without arguments.
func (f *fakeApt) calls() []string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "calls"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.dir, "calls")); err != nil {
		f.t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		calls = append(calls, words[0]+" "+words[1])
	}
	return calls
}

// fail makes the next n calls of a command write text and fail.
func (f *fakeApt) fail(command string, n int, text string) {
	f.t.Helper()
	writeFile(f.t, filepath.Join(f.dir, command+"-fails"), []byte(fmt.Sprintf("%d\n%s\n", n, text)))
}

func (f *fakeApt) add(name, version, depends string) {
	f.t.Helper()
	deb, err := os.ReadFile(filepath.Join(f.dir, "pool", name+".deb"))
	if err != nil {
		f.t.Fatal(err)
	}
	entry := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nDepends: %s\nSize: %d\nSHA256: %x\n\n",
		name, version, depends, len(deb), sha256.Sum256(deb))
	file, err := os.OpenFile(filepath.Join(f.dir, "Packages"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(entry); err != nil {
		f.t.Fatal(err)
	}
}

// addOld adds a kernel in the layout with one package.
func (f *fakeApt) addOld(release, flavour, version string) {
	f.t.Helper()
	uname := release + "-" + flavour
	files := append([]debFileSpec{
		{"./boot/config-" + uname, []byte(fakeConfig)},
		{"./boot/vmlinuz-" + uname, fakeBzImage(uname+" (build@host) #1 SMP PREEMPT_DYNAMIC", []byte(version))},
	}, fakeModules(f.t, "./lib/modules/"+uname, uname, ".xz")...)
	name := "linux-image-" + uname
	fakeDeb(f.t, filepath.Join(f.dir, "pool", name+".deb"), ".xz", files...)
	f.add(name, version, "kmod, linux-base-"+uname+" (= "+version+")")
}

// addSplit adds a kernel in the layout with three packages.
func (f *fakeApt) addSplit(release, flavour, version string) {
	f.t.Helper()
	uname := release + "-" + flavour
	dir := "./usr/lib/modules/" + uname
	pool := func(kind string) string { return filepath.Join(f.dir, "pool", "linux-"+kind+"-"+uname+".deb") }
	fakeDeb(f.t, pool("image"), ".xz")
	fakeDeb(f.t, pool("base"), ".gz", debFileSpec{dir + "/config", []byte(fakeConfig)})
	fakeDeb(f.t, pool("binary"), ".zst", debFileSpec{dir + "/vmlinuz", fakeBzImage(uname+" (b@h) #1 SMP", []byte(version))})
	fakeDeb(f.t, pool("modules"), ".xz", fakeModules(f.t, dir, uname, ".zst")...)
	f.add("linux-image-"+uname, version, fmt.Sprintf("dracut | initramfs-tools, linux-base-%[1]s (= %[2]s), linux-binary-%[1]s (= %[2]s), linux-modules-%[1]s (= %[2]s)", uname, version))
	for _, kind := range []string{"base", "binary", "modules"} {
		f.add("linux-"+kind+"-"+uname, version, "")
	}
}
