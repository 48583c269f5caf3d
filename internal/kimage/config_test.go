package kimage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

func TestTargetConfig(t *testing.T) {
	x86, err := targetOf("")
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[rcu.Preemption]string{
		"": "CONFIG_PREEMPT_DYNAMIC=y", rcu.None: "CONFIG_PREEMPT_NONE=y", rcu.Voluntary: "CONFIG_PREEMPT_VOLUNTARY=y",
		rcu.Full: "CONFIG_PREEMPT=y", rcu.Lazy: "CONFIG_PREEMPT_LAZY=y", rcu.RT: "CONFIG_PREEMPT_RT=y",
	} {
		text, err := x86.config(model, 1000)
		if err != nil || !strings.Contains(text, "\n"+want+"\n") || !strings.Contains(text, "\nCONFIG_HZ_1000=y\n") ||
			(model == "") == strings.Contains(text, "CONFIG_PREEMPT_DYNAMIC=n") {
			t.Errorf("config(%q) = %v; want %s in\n%s", model, err, want, text)
		}
	}
}

func TestUnheld(t *testing.T) {
	asked := "# words\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=n\nCONFIG_D=y\nCONFIG_E=21\nCONFIG_F=21\nCONFIG_G=y\nCONFIG_PROC_SYSCTL=y\n"
	got := "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_E=21\nCONFIG_F=60\n# CONFIG_G is not set\nCONFIG_OTHER=y\nCONFIG_SYSCTL=y\n"
	want := []option{{"C", "n"}, {"D", "y"}, {"F", "21"}, {"G", "y"}}
	if d := cmp.Diff(want, unheld(asked, got), cmp.AllowUnexported(option{})); d != "" {
		t.Errorf("unheld (-want +got):\n%s", d)
	}
}

func TestReadKconfig(t *testing.T) {
	const text = `menu "x"
	depends on OUTER
config A
	bool "a"
	depends on B && (C || D)
	depends on !E
	help
	  It
	  depends on nothing at all.

menuconfig B
	bool
if Z
config C
	tristate "c"
	depends on A
endif
	depends on NOTHING
`
	found := make(kconfig)
	found.read(text, "x/Kconfig")
	want := kconfig{
		"A": {"x/Kconfig:3", []string{"B && (C || D)", "!E"}}, "B": {where: "x/Kconfig:11"}, "C": {"x/Kconfig:14", []string{"A"}},
	}
	if d := cmp.Diff(want, found, cmp.AllowUnexported(kconfigEntry{})); d != "" {
		t.Errorf("read (-want +got):\n%s", d)
	}
}

// Of all that make says when it fails, the cause comes first, whatever the order.
func TestMakeOutput(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"compiler", "make[2]: *** [x] Error 1\n/t/a.c:1:2: warning: w\n/t/a.c:9:1: error: e\n/t/b.c:1:1: error: f\n", "/t/a.c:9:1: error: e"},
		{"header", "  CC a.o\na.c:3:10: fatal error: gelf.h: No such file\ncompilation terminated.\n", "a.c:3:10: fatal error: gelf.h: No such file"},
		{"linker", "make[2]: *** [x] Error 1\nld: a.o: in function `f':\na.c:(.text+0x1): undefined reference to `g'\n", "ld: a.o: in function `f':"},
		{"tool", "/bin/sh: 1: bc: not found\nmake[1]: *** [x] Error 127\n", "/bin/sh: 1: bc: not found"},
		{"make", "make[2]: *** No rule to make target 'x'\nmake[1]: *** y\n", "make[2]: *** No rule to make target 'x'"},
		{"nothing", "hello\n", ""},
	}
	for _, tt := range tests {
		m := makeOutput{kbuild: kbuild{say: func(string) {}}}
		for line := range strings.Lines(tt.text) {
			m.line(strings.TrimSuffix(line, "\n"))
		}
		if got := m.first(); got != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}

// In what a build says, files are counted.
func TestMakeProgress(t *testing.T) {
	var said []string
	m := makeOutput{kbuild: kbuild{usual: 100, say: func(s string) { said = append(said, s) }}} // the last word was long ago
	for _, line := range []string{"make[1]: Entering directory", "  CC      a/b.o", "  HOSTCC  c"} {
		m.line(line)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "building: 1 of about 100 files after ") || !strings.HasSuffix(said[0], "now a/b.o") || m.files != 2 {
		t.Errorf("said %q after %d files", said, m.files)
	}
}

// A build that goes on counts from where the last one was, and says how long the rest takes.
func TestProgress(t *testing.T) {
	var got []Progress
	m := makeOutput{kbuild: kbuild{usual: 100, before: 50, progress: func(p Progress) { got = append(got, p) }}, started: time.Now().Add(-time.Minute)}
	for range enoughFiles {
		m.line("  CC      a.o")
	}
	first, last := got[0], got[len(got)-1]
	if first.Files != 51 || first.Left != 0 || last.Files != 70 || last.Of != 100 || last.Left.Round(time.Second) != 90*time.Second {
		t.Errorf("first %+v, last %+v", first, last)
	}
	if want := "building: 70 of about 100 files after 1m0s, about 2 min to go, now a.o"; last.words() != want {
		t.Errorf("words = %q; want %q", last.words(), want)
	}
}
