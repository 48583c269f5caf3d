package kimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeMakeScript stands in for make: its configuration is what it was asked for, but for what refuse
// names, and for PREEMPT_NONE where the source makes it depend on ARCH_NO_PREEMPT and is said to be lazy; its image
// ends with the source's net/core/dev.c.
const fakeMakeScript = `#!/bin/sh
tree=$2
for a; do
	case $a in
	O=*) obj=${a#O=};;
	KCONFIG_ALLCONFIG=*) asked=${a#KCONFIG_ALLCONFIG=};;
	ARCH=*) arch=${a#ARCH=};;
	CROSS_COMPILE=*) cross=${a#CROSS_COMPILE=};;
	esac
	target=$a
done
echo "make $target" >> "$FAKE_MAKE/calls"
echo "$arch $cross" > "$FAKE_MAKE/arch"
[ -z "$MAKEFLAGS$ARCH" ] || { echo "the environment is not clean"; exit 1; }
case $target in
allnoconfig)
	lazy=NOTHING
	[ -e "$FAKE_MAKE/lazy" ] && grep -q 'depends on ARCH_NO_PREEMPT' "$tree/kernel/Kconfig.preempt" && lazy=CONFIG_PREEMPT_NONE=
	grep '^CONFIG_.*=' "$asked" | grep -v '=n$' | grep -v -F -f "$FAKE_MAKE/refuse" | grep -v "$lazy" > "$obj/.config"
	exit 0;;
esac
echo "  CC      net/core/dev.o"
if [ -e "$FAKE_MAKE/hang" ]; then
	mv "$FAKE_MAKE/hang" "$FAKE_MAKE/hanging"
	exec sleep 100
fi
if [ -s "$FAKE_MAKE/fails" ]; then
	cat "$FAKE_MAKE/fails" >&2
	exit 2
fi
[ $arch = x86_64 ] && arch=x86
mkdir -p "$obj/arch/$arch/boot" "$obj/include/config"
cat "$FAKE_MAKE/bzImage" "$tree/net/core/dev.c" > "$obj/arch/$arch/boot/$target"
echo 6.12.117 > "$obj/include/config/kernel.release"
`

const fakeGccScript = `#!/bin/sh
[ "$1" = --version ] && { cat "$FAKE_MAKE/version"; exit 0; }
[ "$3" = gelf.h ] && [ -e "$FAKE_MAKE/no-gelf.h" ] && exit 1
exit 0
`

// fakeDev has what the built-in patch changes, and nothing else of the real file.
const fakeDev = `/* not the real one */
	for (;;) {
		local_bh_enable();

		if (!repoll)
			break;

		rcu_softirq_qs_periodic(last_qs);
		cond_resched();
	}
}
`

const fakeKconfig = "config PREEMPT_NONE\n\tbool \"None\"\n\tdepends on !PREEMPT_RT\n\tdepends on ARCH_NO_PREEMPT\n\thelp\n\t  depends on nothing\n" +
	"\nconfig PREEMPT_COUNT\n\tbool\n\tdepends on PREEMPTION || DEBUG_ATOMIC_SLEEP\n\nconfig RCU_CPU_STALL_TIMEOUT\n\tint\n"

// fakeTree is a kernel's source as far as anybody here looks.
func fakeTree() map[string]string {
	return map[string]string{
		"Makefile": "all:\n", "Kconfig": "source kernel/Kconfig.preempt\n",
		"kernel/Kconfig.preempt": fakeKconfig, "net/core/dev.c": fakeDev,
	}
}

// A fakeBuild is everything that a build takes, with a source package.
type fakeBuild struct {
	*fakeApt
	dir string
}

func newFakeBuild(t *testing.T) fakeBuild {
	t.Helper()
	f := fakeBuild{newFakeApt(t), t.TempDir()}
	scripts := map[string]string{"make": fakeMakeScript, "gcc": fakeGccScript, "x86_64-linux-gnu-gcc": fakeGccScript, "aarch64-linux-gnu-gcc": fakeGccScript}
	for _, name := range []string{"ld", "x86_64-linux-gnu-ld", "aarch64-linux-gnu-ld", "flex", "bison", "bc", "perl"} {
		scripts[name] = "#!/bin/sh\n"
	}
	for name, text := range scripts {
		writeFile(t, filepath.Join(f.dir, "bin", name), []byte(text))
		if err := os.Chmod(filepath.Join(f.dir, "bin", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(f.dir, "version"), []byte("gcc (Fake) 1.0\nand more\n"))
	writeFile(t, filepath.Join(f.dir, "refuse"), []byte("CONFIG_NOTHING_OF_THIS_NAME=\n"))
	writeFile(t, filepath.Join(f.dir, "bzImage"), fakeBzImage("6.12.117 (b@h) #1 SMP", nil))
	t.Setenv("FAKE_MAKE", f.dir)
	t.Setenv("MAKEFLAGS", "-k") // as under make
	t.Setenv("ARCH", "alpha")
	t.Setenv("PATH", filepath.Join(f.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))

	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for name, text := range fakeTree() {
		h := &tar.Header{Name: "linux-source-6.12/" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	fakeDeb(t, filepath.Join(f.fakeApt.dir, "pool", "linux-source-6.12.deb"), ".xz",
		debFileSpec{"./usr/src/linux-source-6.12.tar.xz", compress(t, ".xz", archive.Bytes())})
	f.add("linux-source-6.12", "6.12.117-1", "")
	return f
}

func (f fakeBuild) write(name, text string) { writeFile(f.t, filepath.Join(f.dir, name), []byte(text)) }

// made returns make's targets since the last time.
func (f fakeBuild) made() string {
	f.t.Helper()
	name := filepath.Join(f.dir, "calls")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		f.t.Fatal(err)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(string(text), "make ", "")), " ")
}

func mustBuild(t *testing.T, s Store, spec string, b Build) *Image {
	t.Helper()
	img, err := s.Build(t.Context(), mustParse(t, spec), b)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
