package kimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// A Build says how a kernel is built from source.
type Build struct {
	Preempt rcu.Preemption // the one model it has; default: PREEMPT_DYNAMIC, so that preempt= chooses
	HZ      int            // default 250
	Patches []string       // see FindPatch; applied in this order
	// Arch is one of experiment.BuildArches, or another name of it that experiment.BuildArch knows; default amd64.
	Arch string
	// Fragment is a file of CONFIG_ lines that win over napistall's own; default none.
	Fragment string
	// AllowKconfig lets Preempt be None or Voluntary where the source's Kconfig forbids it: our copy of
	// kernel/Kconfig.preempt is edited then, and Image.KconfigDiff says how. It changes nothing elsewhere.
	AllowKconfig bool
}

// BuildArch is Debian's name of the architecture that kernels are built for by default.
const BuildArch = "amd64"

// BuildOf returns what arm asks of a kernel that is built for it.
func BuildOf(arm experiment.Arm) Build {
	c := arm.Config
	return Build{Preempt: c.Preempt, HZ: c.HZ, Patches: arm.Patch, Arch: c.Arch, Fragment: c.Fragment, AllowKconfig: c.AllowKconfig}
}

// String says what is asked for, for people.
func (b Build) String() string {
	model, hz := string(b.Preempt), b.HZ
	if model == "" {
		model = "dynamic"
	}
	if hz == 0 {
		hz = defaultHZ
	}
	words := []string{"preempt " + model, fmt.Sprintf("HZ %d", hz)}
	if arch, _ := experiment.BuildArch(b.Arch); arch != "" && arch != BuildArch {
		words = append(words, arch)
	}
	if b.Fragment != "" {
		words = append(words, filepath.Base(b.Fragment))
	}
	for _, p := range b.Patches {
		words = append(words, filepath.Base(p))
	}
	return strings.Join(words, ", ")
}

// buildFormat changes when older builds are no longer what would be built now.
const buildFormat = "build 1"

// Build returns the kernel that comes of building spec's source, from the cache if that has it: the
// same source, patches, configuration and compiler give the same kernel. It has no modules. Source and objects are
// kept, so that what differs in a patch alone takes a minute or two, and a build that is stopped goes
// on the next time. A user's tree is only read.
//
// Its error is a *SpecError when there is no such source, a patch doesn't apply or no kernel takes
// what is asked for, and matches errors.ErrUnsupported when this machine can't build or this source can't
// have it.
func (s Store) Build(ctx context.Context, spec Spec, b Build) (*Image, error) {
	img, err := s.build(ctx, spec, b)
	if err != nil {
		return nil, err
	}
	img.Spec = spec.String()
	return img, nil
}

func (s Store) build(ctx context.Context, spec Spec, b Build) (*Image, error) {
	j, err := s.job(ctx, spec, b, s.source)
	if err != nil {
		return nil, err
	}
	return s.entry(ctx, j.key(), func(dir string) error { return s.fullOfObjects(j.run(ctx, dir)) })
}

// job reads all that decides what comes of a build, the source by find.
func (s Store) job(ctx context.Context, spec Spec, b Build, find func(context.Context, Spec) (source, error)) (job, error) {
	patches, err := readPatches(b.Patches)
	if err != nil {
		return job{}, err
	}
	mine, err := readFragment(b.Fragment)
	if err != nil {
		return job{}, err
	}
	target, err := targetOf(b.Arch)
	if err != nil {
		return job{}, &SpecError{spec.String(), err.Error()}
	}
	asked, err := target.config(b.Preempt, b.HZ)
	if err != nil {
		return job{}, &SpecError{spec.String(), err.Error()}
	}
	asked = mine.over(asked)
	cc, prefix, err := compilerFor(ctx, spec, target, debianArch(runtime.GOARCH))
	if err != nil {
		return job{}, err
	}
	spec.Arch = BuildArch // for apt; a source is for all
	// Everything in the cache is named absolutely: make changes directories.
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return job{}, err
	}
	src, err := find(ctx, spec)
	if err != nil {
		return job{}, err
	}
	return job{Store: s, spec: spec, what: b, patches: patches, mine: mine, asked: asked, cc: cc, src: src, kbuild: kbuild{
		target: target, prefix: prefix, say: s.say, progress: s.Progress, usual: usualFiles, tree: src.work.tree(),
		obj: filepath.Join(src.work.dir, "obj-"+shortSum(target.debian, asked, cc)),
	}}, nil
}

// key names the cache entry: it has all that the kernel comes of.
func (j job) key() string {
	inputs := []string{buildFormat, j.src.digest, j.target.debian, j.asked, j.cc}
	for _, p := range j.patches {
		for _, f := range p.forms {
			inputs = append(inputs, f.digest)
		}
	}
	if j.what.AllowKconfig && (j.what.Preempt == rcu.None || j.what.Preempt == rcu.Voluntary) {
		inputs = append(inputs, "allow-kconfig")
	}
	return keyOf(inputs)
}

// usualFiles is how many lines make prints for files that it makes of our 6.12; a guess for others.
const usualFiles = 1650

func shortSum(parts ...string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", parts)))
	return hex.EncodeToString(sum[:6])
}

// A diskError says that the disk is full, and of what.
type diskError struct{ dir, need string }

func (e diskError) Error() string {
	return fmt.Sprintf("no free disk in %s (%s); what is there already is kept", e.dir, e.need)
}
func (e diskError) Unwrap() error { return syscall.ENOSPC }

func (s Store) fullOfObjects(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return diskError{s.Dir, "a kernel's source and objects need up to 2.5 GB"}
	}
	return err
}

// A job is one build that the cache doesn't have.
type job struct {
	Store
	kbuild
	spec    Spec
	what    Build
	patches []patch
	mine    fragment
	asked   string // the configuration, mine included
	cc      string // the compiler
	src     source
}

// run builds the kernel and puts it into dir as a cache entry.
func (j job) run(ctx context.Context, dir string) error {
	if err := needTools(ctx, j.spec, j.prefix); err != nil {
		return err
	}
	unlock, err := j.lock(ctx, "source-"+filepath.Base(j.src.work.dir))
	if err != nil {
		return err
	}
	defer unlock()
	if j.announce(); j.again() {
		j.usual = 0 // only some, and nobody knows how many
	} else {
		j.before, j.usual = j.counted(), j.usually()
	}
	if err := j.src.fill(ctx); err != nil {
		return err
	}
	p, err := j.patch()
	if err != nil {
		return err
	}
	if err := j.configure(ctx); err != nil {
		return err
	}
	if len(p.forms) > 0 {
		j.Store.say("patched with " + strings.Join(p.forms, ", "))
	}
	files, err := j.make(ctx, j.target.make)
	if j.usual > 0 {
		// For the next time; without it, that one guesses.
		_ = os.WriteFile(j.counter(), []byte(strconv.Itoa(j.before+files)), 0o644)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("kernel %q: the build is stopped; the next one goes on from here: %w", j.spec, ctx.Err())
	} else if err != nil {
		return fmt.Errorf("kernel %q: build it (%s): %w", j.spec, j.what, err)
	}
	if err := os.WriteFile(j.whole(), nil, 0o644); err != nil {
		return err
	}
	j.src.work.sweepObjects()
	return j.keep(dir, p)
}

// A patching is what was done to a source before it was built.
type patching struct {
	forms []string // of patches, as applied
	diff  string   // what AllowKconfig changed
}

// patch brings the source into the state that is to be built.
func (j job) patch() (patching, error) {
	forms, diff, err := j.src.work.patch(j.patches, j.what.allowed)
	var wrong *SpecError
	if errors.As(err, &wrong) {
		return patching{}, &SpecError{j.spec.String(), fmt.Sprintf("the patch %s doesn't apply to %s: %s", wrong.Spec, j.src.name, wrong.Msg)}
	}
	if err == nil && diff != "" {
		j.Store.say(fmt.Sprintf("%s forbids preempt %s; it is allowed by this change of our copy, which makes it a kernel that nobody ships:\n%s",
			j.src.name, j.what.Preempt, strings.TrimSuffix(diff, "\n")))
	}
	return patching{forms, diff}, err
}

// announce says what is built and how long it takes. The times were measured: on 2 CPUs with
// other work to do a whole build took 13 minutes, one after a patch of net/core/dev.c 20 seconds; a patch
// of a header takes longer.
func (j job) announce() {
	minutes := (15*2 + runtime.NumCPU() - 1) / runtime.NumCPU()
	long := fmt.Sprintf("takes about %d minutes on %d CPUs the first time", minutes, runtime.NumCPU())
	if j.again() {
		long = "takes up to 2 minutes: most of it is built already"
	}
	j.Store.say(fmt.Sprintf("building %s (%s): %s", j.src.name, j.what, long))
}

// configure makes the configuration and sees to it that it is as asked.
func (j job) configure(ctx context.Context) error {
	if err := os.MkdirAll(j.obj, 0o755); err != nil {
		return err
	}
	if err := j.checkFragment(); err != nil {
		return err
	}
	asked := filepath.Join(j.obj, "napistall.config")
	if err := os.WriteFile(asked, []byte(j.asked), 0o644); err != nil {
		return err
	}
	if _, err := j.quiet().make(ctx, "KCONFIG_ALLCONFIG="+asked, "allnoconfig"); err != nil {
		return fmt.Errorf("kernel %q: configure it (%s): %w", j.spec, j.what, err)
	}
	got, err := os.ReadFile(filepath.Join(j.obj, ".config"))
	if err != nil {
		return err
	}
	wrong := unheld(j.asked, string(got))
	if len(wrong) == 0 {
		return nil
	}
	k, err := readKconfigs(j.tree, j.target.src)
	if err != nil {
		return fmt.Errorf("kernel %q: find out why it can't be configured: %w", j.spec, err)
	}
	text := fmt.Sprintf("kernel %q: %s can't be configured with %s for %s: %s", j.spec, j.src.name, j.what, j.target.kbuild,
		k.why(wrong, parseConfig(string(got)), j.mine.where))
	if slices.ContainsFunc(wrong, func(o option) bool { return o.name == "PREEMPT_NONE" || o.name == "PREEMPT_VOLUNTARY" }) {
		text += "; debian-source:trixie/linux-source-6.12 can have it, or --allow-kconfig (allow-kconfig: true) edits what forbids it"
	}
	return unsupportedError(text)
}

// checkFragment returns an error if the user asks for an option that the source doesn't have: Kconfig itself says nothing.
func (j job) checkFragment() error {
	if len(j.mine.lines) == 0 {
		return nil
	}
	k, err := readKconfigs(j.tree, j.target.src)
	if err != nil {
		return fmt.Errorf("kernel %q: read what options it has: %w", j.spec, err)
	}
	if err := j.mine.unknown(k, j.src.name+" for "+j.target.kbuild); err != nil {
		return inputError{"fragment", &SpecError{j.what.Fragment, err.Error()}}
	}
	return nil
}

// keep makes a cache entry of what was built of what p describes.
func (j job) keep(dir string, p patching) error {
	image, err := os.Open(filepath.Join(j.obj, j.target.image))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kernel %q: make ended well, and there is no %s", j.spec, filepath.Join(j.obj, j.target.image))
	}
	if err != nil {
		return fmt.Errorf("kernel %q: %w", j.spec, err)
	}
	defer image.Close()
	made := parcel{image: filepath.Join(dir, "vmlinuz"), imageFrom: j.target.image, configFrom: "the build's .config"}
	if err := writeLimited(made.image, image, maxImage); err != nil {
		return err
	}
	if made.config, err = os.ReadFile(filepath.Join(j.obj, ".config")); err != nil {
		return err
	}
	release, err := os.ReadFile(filepath.Join(j.obj, "include/config/kernel.release"))
	if err != nil {
		return fmt.Errorf("kernel %q: %w", j.spec, err)
	}
	made.release = strings.TrimSpace(string(release))
	return made.finish(dir, manifest{Arch: j.target.debian, Version: j.src.version, Packages: j.src.packages,
		Source: j.sourceWords(p.forms), KconfigDiff: p.diff})
}

// sourceWords says what was built: the source, its state, patches and the user's fragment.
func (j job) sourceWords(forms []string) string {
	text := j.src.name
	if len(forms) > 0 {
		text += " with " + strings.Join(forms, ", ")
	}
	if j.mine.file != "" {
		text += ", configured with " + j.mine.file
	}
	return text
}
