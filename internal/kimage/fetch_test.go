package kimage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t testing.TB, text string) Spec {
	t.Helper()
	spec, err := ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// fetch fails the test on an error.
func fetch(t testing.TB, s Store, text string) *Image {
	t.Helper()
	img, err := s.Fetch(t.Context(), mustParse(t, text))
	if err != nil {
		t.Fatalf("Fetch(%s): %v", text, err)
	}
	return img
}

// leftovers lists what shouldn't stay behind in a store.
func leftovers(t testing.TB, s Store) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"work", "locks"} {
		entries, err := os.ReadDir(filepath.Join(s.Dir, dir))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, dir+"/"+e.Name())
		}
	}
	return names
}

func TestFetchDebian(t *testing.T) {
	f := newFakeApt(t)
	f.addOld("6.12.100+deb13", "cloud-amd64", "6.12.100-1")
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1~bpo13+1")
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1~bpo13+1")
	tests := []struct {
		spec, release, configFrom string
		packages                  int
	}{
		{"debian:x/amd64", "7.3.4+deb13-cloud-amd64", "the package's usr/lib/modules/7.3.4+deb13-cloud-amd64/config", 3},
		{"debian:x/amd64/cloud-amd64/6.18", "6.18.15+deb13-cloud-amd64", "the package's boot/config-6.18.15+deb13-cloud-amd64", 1},
		{"debian:x/amd64/cloud-amd64/6.12.100+deb13", "6.12.100+deb13-cloud-amd64", "the package's boot/config-6.12.100+deb13-cloud-amd64", 1},
	}
	s, _ := f.store()
	for _, tt := range tests {
		img := fetch(t, s, tt.spec)
		if img.Release != tt.release || len(img.Packages) != tt.packages || img.ConfigFrom != tt.configFrom || img.Spec != tt.spec {
			t.Errorf("Fetch(%s) = %+v; want release %s from %d packages", tt.spec, img, tt.release, tt.packages)
		}
		if diff := cmp.Diff(wantOrder(), moduleNames(img)); diff != "" {
			t.Errorf("Fetch(%s): modules (-want +got):\n%s", tt.spec, diff)
		}
		if img.Arch != "amd64" || img.GOARCH != "amd64" || len(img.Config) == 0 {
			t.Errorf("Fetch(%s): arch %s, GOARCH %s, %d config lines", tt.spec, img.Arch, img.GOARCH, len(img.Config))
		}
		if sum, _, err := digestFile(img.Path); err != nil || sum != img.Digest {
			t.Errorf("Fetch(%s): digest %s, %v; the image says %s", tt.spec, sum, err, img.Digest)
		}
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// What the cache has needs no network, and with a fresh or unneeded index not even apt.
func TestFetchWarm(t *testing.T) {
	f := newFakeApt(t)
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1")
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1")
	s, _ := f.store()
	const newest, pinned = "debian:x/amd64", "debian:x/amd64/cloud-amd64/6.18.15+deb13"
	first := fetch(t, s, newest)
	fetch(t, s, pinned)
	if got := strings.Join(f.calls(), ", "); strings.Count(got, "update") != 1 || strings.Count(got, "download") != 2 {
		t.Errorf("cold: called %s; want 1 update and 2 downloads", got)
	}
	for _, spec := range []string{newest, pinned} {
		fetch(t, s, spec)
		if got := f.calls(); got != nil {
			t.Errorf("warm %s: called %v; want nothing", spec, got)
		}
	}

	old := time.Now().Add(-2 * indexAge)
	stamp := filepath.Join(s.Dir, "apt/x_amd64/updated")
	if err := os.Chtimes(stamp, old, old); err != nil {
		t.Fatal(err)
	}
	fetch(t, s, pinned)
	if got := f.calls(); got != nil {
		t.Errorf("pinned with an old index: called %v; want nothing", got)
	}
	if img := fetch(t, s, newest); img.Path != first.Path {
		t.Errorf("newest after an update that changed nothing: %s; want %s", img.Path, first.Path)
	}
	if got := strings.Join(f.calls(), ", "); strings.Count(got, "update") != 1 || strings.Contains(got, "download") {
		t.Errorf("newest with an old index: called %s; want an update and no download", got)
	}

	s.Offline = true
	if err := os.Chtimes(stamp, old, old); err != nil {
		t.Fatal(err)
	}
	fetch(t, s, newest)
	if got := strings.Join(f.calls(), ", "); strings.Contains(got, "apt-get") {
		t.Errorf("offline: called %s", got)
	}
}

func TestFetchNewRelease(t *testing.T) {
	f := newFakeApt(t)
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1")
	s, _ := f.store()
	fetch(t, s, "debian:x/amd64")
	f.addOld("6.18.16+deb13", "cloud-amd64", "6.18.16-1")
	f.calls()
	// The index is fresh, and yet it can't have what was released since.
	if img := fetch(t, s, "debian:x/amd64/cloud-amd64/6.18.16"); img.Release != "6.18.16+deb13-cloud-amd64" {
		t.Errorf("Fetch = %s; want the new release", img.Release)
	}
}

func TestFetchMirrorTrouble(t *testing.T) {
	const sync = "E: Failed to fetch http://m.invalid/Packages.xz  File has unexpected size (270164 != 290980). Mirror sync in progress?"
	f := newFakeApt(t)
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1")
	s, log := f.store()
	f.fail("update", 2, sync)
	fetch(t, s, "debian:x/amd64")
	if !strings.Contains(log(), "Mirror sync in progress?; trying again") {
		t.Errorf("log:\n%s", log())
	}

	f.fail("update", 99, sync)
	_, err := s.Fetch(t.Context(), mustParse(t, "debian:y/amd64"))
	if err == nil || !strings.Contains(err.Error(), "unexpected size") || !strings.Contains(err.Error(), "(tried 3 times)") {
		t.Errorf("Fetch from a broken mirror = %v", err)
	}
	// What was known before is better than nothing.
	old := time.Now().Add(-2 * indexAge)
	if err := os.Chtimes(filepath.Join(s.Dir, "apt/x_amd64/updated"), old, old); err != nil {
		t.Fatal(err)
	}
	if img := fetch(t, s, "debian:x/amd64"); img.Release != "6.18.15+deb13-cloud-amd64" || !strings.Contains(log(), "the newest known on") {
		t.Errorf("Fetch = %s; log:\n%s", img.Release, log())
	}
}

// TestFetchFullDisk: no try changes that, and the directory can be named from where one is.
func TestFetchFullDisk(t *testing.T) {
	f := newFakeApt(t)
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1")
	s, log := f.store()
	f.fail("update", 1, "E: Failed to fetch http://m.invalid/Packages  Error writing to file - write (28: No space left on device)\n"+
		"E: Some index files failed to download.")
	_, err := s.Fetch(t.Context(), mustParse(t, "debian:x/amd64"))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no free disk in "+s.Dir) || strings.Contains(log(), "again") {
		t.Errorf("Fetch = %v; log:\n%s", err, log())
	}
	f.fail("update", 1, "W: something odd\n")
	if _, err = s.Fetch(t.Context(), mustParse(t, "debian:x/amd64")); err == nil || !strings.HasSuffix(err.Error(), ": W: something odd") {
		t.Errorf("Fetch = %v; want what apt said", err)
	}
}

// TestFetchLeavesNoTemporaryFile: whenever it is killed, what it was writing is in the cache, and goes.
func TestFetchLeavesNoTemporaryFile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := t.TempDir()
	name := filepath.Join(dir, "refs", "x.json")
	if err := os.MkdirAll(filepath.Join(name, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := writeJSON(name, 1)
	var link *os.LinkError
	if !errors.As(err, &link) || filepath.Dir(link.Old) != filepath.Dir(name) {
		t.Errorf("writeJSON = %v; want it written beside its place", err)
	}
	half, old := filepath.Join(dir, "refs", ".x.json123"), time.Now().Add(-time.Hour)
	writeFile(t, half, []byte("{"))
	Store{Dir: dir}.sweep()
	if _, err := os.Stat(half); err != nil {
		t.Errorf("what may still be written is gone: %v", err)
	}
	if err := os.Chtimes(half, old, old); err != nil {
		t.Fatal(err)
	}
	Store{Dir: dir}.sweep()
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed run left is still there: %v", err)
	}
}

func TestFetchIntoRelativeDir(t *testing.T) {
	f := newFakeApt(t)
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1")
	s, _ := f.store()
	t.Chdir(t.TempDir())
	s.Dir = "cache"
	fetch(t, s, "debian:x/amd64")
}

func TestFetchErrors(t *testing.T) {
	f := newFakeApt(t)
	f.addOld("6.18.15+deb13", "cloud-amd64", "6.18.15-1")
	f.addOld("6.18.16+deb13", "rt-amd64", "6.18.16-1")
	writeFile(t, filepath.Join(f.dir, "InRelease"), []byte("Suite: x\nArchitectures: all amd64 armhf\n"))
	file := filepath.Join(f.dir, "text")
	writeFile(t, file, []byte(strings.Repeat("no kernel ", 100)))
	tests := []struct {
		name, spec string
		offline    bool
		update     string // fails with this
		download   string
		wrong      bool // a SpecError; else ErrUnsupported unless plain
		plain      bool
		want       string
	}{
		{name: "suite", spec: "debian:nosuch/amd64", update: "E: The repository 'http://m nosuch Release' does not have a Release file.",
			wrong: true, want: "has no suite nosuch; Debian's are sid"},
		{name: "arch", spec: "debian:x/m68k", wrong: true, want: "x has no architecture m68k; it has amd64, armhf"},
		{name: "flavour", spec: "debian:x/amd64/blue", wrong: true, want: "no flavour blue for amd64; it has cloud-amd64, rt-amd64"},
		{name: "release", spec: "debian:x/amd64/cloud-amd64/6.1", wrong: true, want: "no release 6.1 of cloud-amd64; it has 6.18.15+deb13"},
		{name: "offline", spec: "debian:x/amd64", offline: true, want: "offline, and neither the kernel nor the package index of x for amd64"},
		{name: "disk", spec: "debian:x/amd64", download: "E: You don't have enough free space in /x/.", plain: true, want: "no free disk in"},
		{name: "gone", spec: "debian:x/amd64", download: "E: Failed to fetch  404  Not Found", plain: true, want: "404  Not Found"},
		{name: "tree", spec: "tree:/no/such", wrong: true, want: "there is no /no/such"},
		{name: "no image", spec: "file:" + file, wrong: true, want: "not a kernel image"},
		{name: "no file", spec: "file:/no/such", wrong: true, want: "there is no /no/such"},
		{name: "no deb", spec: "deb:" + file, wrong: true, want: "not a Debian package"},
		{name: "no host", spec: "host", want: "doesn't say which kernel it runs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := f.store()
			s.Offline = tt.offline
			f.fail("update", 0, "")
			f.fail("download", 0, "")
			if tt.update != "" {
				f.fail("update", 99, tt.update)
			}
			if tt.download != "" {
				f.fail("download", 99, tt.download)
			}
			img, err := s.Fetch(t.Context(), mustParse(t, tt.spec))
			if err == nil {
				t.Fatalf("Fetch(%s) = %+v; want an error with %q", tt.spec, img, tt.want)
			}
			var wrong *SpecError
			isSpec, isUnsupported := errors.As(err, &wrong), errors.Is(err, errors.ErrUnsupported)
			if !strings.Contains(err.Error(), tt.want) || isSpec != tt.wrong || isUnsupported == (tt.wrong || tt.plain) {
				t.Errorf("Fetch(%s) = %v (SpecError %v, ErrUnsupported %v); want %q", tt.spec, err, isSpec, isUnsupported, tt.want)
			}
			if isSpec && wrong.Spec != tt.spec {
				t.Errorf("Fetch(%s): the error is about %s", tt.spec, wrong.Spec)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Fetch(%s): more than one line: %v", tt.spec, err)
			}
			if left := leftovers(t, s); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestFetchWithoutApt(t *testing.T) {
	f := newFakeApt(t)
	t.Setenv("PATH", t.TempDir())
	s, _ := f.store()
	_, err := s.Fetch(t.Context(), mustParse(t, "debian:x/amd64"))
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no apt on this machine") {
		t.Errorf("Fetch = %v; want ErrUnsupported that names apt", err)
	}
}

func TestFetchDamaged(t *testing.T) {
	f := newFakeApt(t)
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1")
	s, log := f.store()
	img := fetch(t, s, "debian:x/amd64")
	damage := map[string]func(){
		"image":    func() { writeFile(t, img.Path, []byte("damaged")) },
		"module":   func() { writeFile(t, img.Modules[0].Path, []byte("damaged")) },
		"config":   func() { writeFile(t, filepath.Join(filepath.Dir(img.Path), "config"), nil) },
		"manifest": func() { writeFile(t, filepath.Join(filepath.Dir(img.Path), "manifest.json"), []byte("{")) },
		"missing": func() {
			if err := os.Remove(img.Path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, do := range damage {
		f.calls()
		before := len(log())
		do()
		again := fetch(t, s, "debian:x/amd64")
		if again.Digest != img.Digest || !cmp.Equal(again, img) {
			t.Errorf("%s: fetched %+v; want %+v", name, again, img)
		}
		if !strings.Contains(log()[before:], "throwing away") || !strings.Contains(strings.Join(f.calls(), ","), "download") {
			t.Errorf("%s: not fetched again; log:\n%s", name, log()[before:])
		}
	}
	s.Offline = true
	writeFile(t, img.Path, []byte("damaged"))
	if _, err := s.Fetch(t.Context(), mustParse(t, "debian:x/amd64")); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "offline, and linux-image-7.3.4+deb13-cloud-amd64 is not in") {
		t.Errorf("Fetch of a damaged kernel offline = %v", err)
	}
}

func TestFetchTogether(t *testing.T) {
	f := newFakeApt(t)
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1")
	s, _ := f.store()
	s.Log = nil
	spec := mustParse(t, "debian:x/amd64")
	images := make([]*Image, 5)
	var wg sync.WaitGroup
	for i := range images {
		wg.Go(func() {
			img, err := s.Fetch(t.Context(), spec)
			if err != nil {
				t.Errorf("Fetch: %v", err)
			}
			images[i] = img
		})
	}
	wg.Wait()
	for _, img := range images[1:] {
		if diff := cmp.Diff(images[0], img); diff != "" {
			t.Errorf("two fetches at once differ:\n%s", diff)
		}
	}
	if got := strings.Count(strings.Join(f.calls(), ","), "download"); got != 1 {
		t.Errorf("downloaded %d times; want 1", got)
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// A kernel whose parts aren't all in the index is not half fetched.
func TestFetchIncomplete(t *testing.T) {
	f := newFakeApt(t)
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1")
	packages := filepath.Join(f.dir, "Packages")
	text, err := os.ReadFile(packages)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "Package: linux-modules")
	writeFile(t, packages, []byte(before))
	s, _ := f.store()
	_, err = s.Fetch(t.Context(), mustParse(t, "debian:x/amd64"))
	if err == nil || !strings.Contains(err.Error(), "x has no linux-modules-7.3.4+deb13-cloud-amd64 7.3.4-1") {
		t.Errorf("Fetch without the modules' package = %v", err)
	}
}

// A cancelled download leaves nothing, and what a killed run left is swept away.
func TestFetchInterrupted(t *testing.T) {
	f := newFakeApt(t)
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1")
	// The fake writes into this pipe when it has downloaded something, then hangs.
	if out, err := exec.Command("mkfifo", filepath.Join(f.dir, "hang")).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	s, _ := f.store()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(filepath.Join(f.dir, "hang")) // what it says doesn't matter
		cancel()
	}()
	if _, err := s.Fetch(ctx, mustParse(t, "debian:x/amd64")); !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch = %v; want %v", err, context.Canceled)
	}
	if left := leftovers(t, s); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Remove(filepath.Join(f.dir, "hang")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(s.Dir, "work/0123/debs/half.deb"), []byte("half"))
	writeFile(t, filepath.Join(s.Dir, "locks/entry-0123.lock"), nil)
	s.Log = nil
	fetch(t, s, "debian:x/amd64")
	if left := leftovers(t, s); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestList(t *testing.T) {
	f := newFakeApt(t)
	f.addSplit("7.3.4+deb13", "cloud-amd64", "7.3.4-1~bpo13+1")
	f.addOld("6.18.9+deb13", "cloud-amd64", "6.18.9-1~bpo13+1")
	f.addOld("6.18.15+deb13", "rt-amd64", "6.18.15-1~bpo13+1")
	s, _ := f.store()
	pkgs, err := s.List(t.Context(), "x", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pkgs {
		got = append(got, p.Release+" "+p.Flavour)
	}
	want := []string{"6.18.9+deb13 cloud-amd64", "6.18.15+deb13 rt-amd64", "7.3.4+deb13 cloud-amd64"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if _, err := s.List(t.Context(), "../x", "amd64"); err == nil {
		t.Error("List of a suite that is a path succeeded")
	}
}
