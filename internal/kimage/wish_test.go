package kimage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

func TestTargets(t *testing.T) {
	var names []string
	for _, target := range buildTargets() {
		names = append(names, target.debian)
		for _, hz := range target.hz {
			if _, err := target.config(rcu.None, hz); err != nil {
				t.Errorf("%s with HZ %d: %v", target.debian, hz, err)
			}
		}
	}
	if d := cmp.Diff(experiment.BuildArches(), names); d != "" {
		t.Errorf("what an experiment may name and what is built (-may +is):\n%s", d)
	}
	for word, want := range map[string]string{"": "amd64", "x86_64": "amd64", "arm": "armhf", "aarch64": "arm64", "arm64": "arm64"} {
		if got, err := targetOf(word); err != nil || got.debian != want {
			t.Errorf("targetOf(%q) = %s, %v; want %s", word, got.debian, err, want)
		}
	}
	for word, want := range map[string]string{"mips": "on no mips machine", "sparc": `"sparc": kernels are built for amd64, arm64, armhf`} {
		if _, err := targetOf(word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("targetOf(%q) = %v; want %q", word, err, want)
		}
	}
}

func TestBuildForArm64(t *testing.T) {
	f := newFakeBuild(t)
	s, log := f.store()
	f.write("bzImage", strings.Repeat("\x00", 0x38)+"ARM\x64"+strings.Repeat("\x00", 64))
	img := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, Arch: "aarch64"})
	if img.Arch != "arm64" || img.GOARCH != "arm64" || !strings.Contains(log(), "(preempt none, HZ 250, arm64)") {
		t.Errorf("the image is for %s, %s, and the log\n%s", img.Arch, img.GOARCH, log())
	}
	if got := strings.TrimSpace(read(t, filepath.Join(f.dir, "arch"))); got != "arm64 aarch64-linux-gnu-" && debianArch("arm64") != got {
		t.Errorf("make was told %q", got)
	}
	config := strings.Join(img.Config, "\n")
	for line, want := range map[string]bool{"CONFIG_SERIAL_AMBA_PL011_CONSOLE=y": true, "CONFIG_PCI_HOST_GENERIC=y": true, "CONFIG_VETH=y": true,
		"CONFIG_SERIAL_8250=y": false, "CONFIG_ACPI=y": false} {
		if strings.Contains(config, line) != want {
			t.Errorf("%s is asked for: %v", line, !want)
		}
	}
	if other := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None}); other.Path == img.Path {
		t.Error("x86-64 gets arm64's kernel")
	}
}

// Without a cross compiler, its package is named.
func TestBuildCrossCompiler(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	for arch, pkg := range map[string]string{"arm64": "gcc-aarch64-linux-gnu", "armhf": "gcc-arm-linux-gnueabihf"} {
		t.Setenv("PATH", emptiedOf(t, f, arch))
		_, err := s.Build(t.Context(), mustParse(t, fakeSource), Build{Preempt: rcu.Full, Arch: arch})
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install binutils-"+strings.TrimPrefix(pkg, "gcc-")+" "+pkg) {
			t.Errorf("%s: %v; want the package %s", arch, err, pkg)
		}
	}
}

// emptiedOf returns a PATH with all of f's tools and the real tar and xz, but no compiler for arch.
func emptiedOf(t *testing.T, f fakeBuild, arch string) string {
	t.Helper()
	target, err := targetOf(arch)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"make", "gcc", "ld", "flex", "bison", "bc", "perl"} {
		if err := os.Symlink(filepath.Join(f.dir, "bin", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tar", "xz", "sh", "cat"} {
		for _, bin := range []string{"/usr/bin", "/bin"} {
			if _, err := os.Stat(filepath.Join(bin, name)); err == nil {
				_ = os.Symlink(filepath.Join(bin, name), filepath.Join(dir, name)) // the second is there already
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, target.cross+"gcc")); err == nil {
		t.Fatalf("%sgcc is there", target.cross)
	}
	return dir
}

func TestParseFragment(t *testing.T) {
	f, err := parseFragment("f", "# words\n\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=-3\r\nCONFIG_D=\"a \\\" b\"\nCONFIG_E=0x1F\n  CONFIG_F=n\n")
	want := []fragmentLine{{option{"A", "y"}, 3}, {option{"B", "n"}, 4}, {option{"C", "-3"}, 5}, {option{"D", `"a \" b"`}, 6},
		{option{"E", "0x1F"}, 7}, {option{"F", "n"}, 8}}
	if d := cmp.Diff(want, f.lines, cmp.AllowUnexported(fragmentLine{}, option{})); d != "" || err != nil {
		t.Errorf("parseFragment: %v (-want +got):\n%s", err, d)
	}
	for text, want := range map[string]string{
		"CONFIG_A=y\nCONFIG_B\n":            `f:2: "CONFIG_B": want CONFIG_NAME=VALUE`,
		"CONFIG_A=yes\n":                    `f:1: "CONFIG_A=yes": want`,
		"CONFIG_A = y\n":                    "f:1: ",
		"A=y\n":                             "f:1: ",
		"CONFIG_A=m\n":                      "f:1: CONFIG_A=m: these kernels have no modules: want y",
		"CONFIG_A=y\n# CONFIG_A is not set": "f:2: CONFIG_A is already in line 1",
		"\nCONFIG_PREEMPT_NONE=y\n":         "f:2: CONFIG_PREEMPT_NONE is asked for by --preempt",
		"CONFIG_HZ_100=y\n":                 "f:1: CONFIG_HZ_100 is asked for by --preempt or --hz",
		"# nothing\n":                       "f: no option in it",
		"\x00\xff":                          "f:1: ",
	} {
		if _, err := parseFragment("f", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("parseFragment(%q) = %v; want %s", text, err, want)
		}
	}
}

func FuzzParseFragment(f *testing.F) {
	f.Add("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\n")
	f.Add("CONFIG_A=m\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFragment("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%q has no place in it", err)
			}
			return
		}
		// What is asked for is what comes out, and reading it again changes nothing.
		merged := got.over("CONFIG_ZZ_OURS=y\n")
		values := parseConfig(merged)
		for _, l := range got.lines {
			if values[l.name] != l.value {
				t.Errorf("CONFIG_%s is %q; want %q", l.name, values[l.name], l.value)
			}
		}
		if again := got.over(merged); len(parseConfig(again)) != len(values) {
			t.Errorf("over twice has %d options; want %d", len(parseConfig(again)), len(values))
		}
	})
}

func TestBuildFragment(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		writeFile(t, name, []byte(text))
		return name
	}
	plain := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None})
	good := write("debug.config", "CONFIG_PREEMPT_COUNT=y\nCONFIG_RCU_CPU_STALL_TIMEOUT=5\n")
	img := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, Fragment: good})
	config := strings.Join(img.Config, "\n")
	if img.Path == plain.Path || !strings.Contains(config, "CONFIG_PREEMPT_COUNT=y") || !strings.Contains(config, "STALL_TIMEOUT=5") || strings.Contains(config, "STALL_TIMEOUT=21") {
		t.Errorf("the fragment makes no difference:\n%s", config)
	}
	if want := "linux-source-6.12 6.12.117-1, configured with debug.config"; img.Source != want {
		t.Errorf("Source = %q; want %q", img.Source, want)
	}
	f.made()
	if again := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, Fragment: write("same.config", read(t, good))}); again.Path != img.Path || f.made() != "" {
		t.Error("the same fragment under another name is built again")
	}

	unknown := write("unknown.config", "# a slip\nCONFIG_PREEMPT_CUONT=y\n")
	f.write("refuse", "CONFIG_PREEMPT_COUNT=\n")
	for _, tt := range []struct {
		file string
		kind error
		want string
	}{
		{unknown, nil, "unknown.config:2: linux-source-6.12 6.12.117-1 for x86_64 has no option CONFIG_PREEMPT_CUONT; did you mean CONFIG_PREEMPT_COUNT, CONFIG_PREEMPT_NONE?"},
		{write("count.config", "\nCONFIG_PREEMPT_COUNT=y\n"), errors.ErrUnsupported,
			"CONFIG_PREEMPT_COUNT=y (count.config:2) doesn't hold: it depends on PREEMPTION || DEBUG_ATOMIC_SLEEP (kernel/Kconfig.preempt:8); not set: PREEMPTION, DEBUG_ATOMIC_SLEEP"},
		{filepath.Join(dir, "gone.config"), nil, "there is no such file"},
		{dir, nil, "want a file of CONFIG_ lines"},
		{write("bad.config", "PREEMPT_COUNT\n"), nil, "bad.config:1: "},
	} {
		_, err := s.Build(t.Context(), mustParse(t, fakeSource), Build{Preempt: rcu.None, Fragment: tt.file})
		_, wrong := errors.AsType[*SpecError](err)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.kind != nil && !errors.Is(err, tt.kind) || wrong == (tt.kind != nil) {
			t.Errorf("%s: %v (SpecError %v); want %q", filepath.Base(tt.file), err, wrong, tt.want)
		}
	}
}

// Where Kconfig forbids a model, an edit of our copy lets it be chosen, and says so wherever the kernel is described.
func TestBuildAllowKconfig(t *testing.T) {
	f := newFakeBuild(t)
	s, log := f.store()
	f.write("lazy", "")
	if _, err := s.Build(t.Context(), mustParse(t, fakeSource), Build{Preempt: rcu.None}); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("without the edit: %v", err)
	}
	img := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, AllowKconfig: true})
	const want = `--- a/kernel/Kconfig.preempt
+++ b/kernel/Kconfig.preempt
@@ -1,7 +1,6 @@
 config PREEMPT_NONE
 	bool "None"
 	depends on !PREEMPT_RT
-	depends on ARCH_NO_PREEMPT
 	help
 	  depends on nothing
 
`
	if d := cmp.Diff(want, img.KconfigDiff); d != "" {
		t.Errorf("KconfigDiff (-want +got):\n%s", d)
	}
	if !strings.Contains(log(), "6.12.117-1 forbids preempt none; it is allowed by this change of our copy") || !strings.Contains(log(), "-\tdepends on ARCH_NO_PREEMPT\n") {
		t.Errorf("the edit isn't shown:\n%s", log())
	}
	again := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, AllowKconfig: true})
	in, err := Inspect(t.Context(), again)
	if err != nil || in.KconfigDiff != want {
		t.Fatalf("from the cache, the edit is %q, %v", in.KconfigDiff, err)
	}
	said := false
	for _, fact := range in.Facts() {
		said = said || fact.Name == "Kconfig" && strings.Contains(fact.Value, "edited to allow preempt none")
	}
	if !said {
		t.Error("inspect doesn't say that Kconfig was edited")
	}
	// The next build has the source as it was, and a model that needs no edit gets none.
	if full := mustBuild(t, s, fakeSource, Build{Preempt: rcu.Full, AllowKconfig: true}); full.KconfigDiff != "" {
		t.Errorf("full has the edit\n%s", full.KconfigDiff)
	}
	trees, err := filepath.Glob(filepath.Join(s.Dir, "sources", "*", "tree", kconfigPreempt))
	if err != nil || len(trees) != 1 || read(t, trees[0]) != fakeKconfig {
		t.Errorf("the edit stays in the source: %v %v", trees, err)
	}
}

func TestAllowModel(t *testing.T) {
	const text = "config PREEMPT_NONE\n\tbool\n\tdepends on ARCH_NO_PREEMPT\n\nconfig PREEMPT_VOLUNTARY\n\tbool\n\tdepends on !ARCH_HAS_PREEMPT_LAZY\n\tdepends on !PREEMPT_RT\n" +
		"\tdepends on !ARCH_HAS_PREEMPT_LAZY\n\thelp\n\tdepends on ARCH_NO_PREEMPT\n"
	for model, want := range map[rcu.Preemption]string{
		rcu.None:      strings.Replace(text, "\tdepends on ARCH_NO_PREEMPT\n", "", 1),
		rcu.Voluntary: strings.ReplaceAll(text, "\tdepends on !ARCH_HAS_PREEMPT_LAZY\n", ""),
	} {
		edited, diff := allowModel(text, model)
		if d := cmp.Diff(want, edited); d != "" {
			t.Errorf("%s (-want +got):\n%s", model, d)
		}
		// The diff says what was done: our own patching makes the same of it.
		files, err := parsePatch([]byte(diff))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: the diff\n%s\ncan't be read: %v", model, diff, err)
		}
		lines, err := applyHunks(splitLines([]byte(text)), files[0].hunks)
		if err != nil || strings.Join(lines, "") != edited {
			t.Errorf("%s: the diff makes another text (%v):\n%s", model, err, diff)
		}
	}
	if edited, diff := allowModel(fakeDev, rcu.None); edited != fakeDev || diff != "" {
		t.Errorf("a text without the option is changed by\n%s", diff)
	}
}

// Whatever a Kconfig file says, what is dropped from it is what the diff says, and no entry is lost.
func FuzzAllowModel(f *testing.F) {
	f.Add(fakeKconfig)
	f.Add("config PREEMPT_VOLUNTARY\n\tdepends on !ARCH_HAS_PREEMPT_LAZY")
	f.Add("config PREEMPT_NONE\n\tdepends on ARCH_NO_PREEMPT\r\nendchoice\n\tdepends on ARCH_NO_PREEMPT\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, model := range []rcu.Preemption{rcu.None, rcu.Voluntary} {
			edited, diff := allowModel(text, model)
			if diff == "" {
				if edited != text {
					t.Errorf("%q becomes %q without a diff", text, edited)
				}
				continue
			}
			files, err := parseDiffs([]byte(diff))
			if err != nil || len(files) != 1 {
				t.Fatalf("the diff\n%s\ncan't be read: %v", diff, err)
			}
			was, is := make(kconfig), make(kconfig)
			was.read(text, "f")
			is.read(edited, "f")
			for name := range was {
				if _, ok := is[name]; !ok {
					t.Errorf("%s is lost: %q becomes %q", name, text, edited)
				}
			}
			if again, diff := allowModel(edited, model); diff != "" || again != edited {
				t.Errorf("%q has more to drop: %q", edited, diff)
			}
		}
	})
}
