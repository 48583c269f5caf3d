package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
)

// A proveBuild is one kernel that a plan needs, and what it takes to have it.
type proveBuild struct {
	spec kimage.Spec
	what kimage.Build
	arms []string
	kimage.Outlook
}

// What a build takes. On 2 CPUs with other work to do, 6.12 took 13 minutes from nothing and 20 seconds after a
// patch of net/core/dev.c (see kimage's announce); a patch of a header takes longer, a whole tree's copy or
// download some more.
const (
	wholeBuild = 15 * 2 * time.Minute // on one CPU
	againBuild = 2 * time.Minute
)

// bootTime is what a trial takes besides its duration, under TCG on 2 cores: boot, setup and end. With a hold of
// 15 s and 3 s after it, whole trials took 21 s on an idle host for x86 and 31 s for arm; beside compilers and other
// guests, x86 took 15 s more than its duration.
func bootTime(arm experiment.Arm) time.Duration {
	switch {
	case experiment.IsModel(arm.Kernel):
		return 0
	case arm.Config.Arch == "armhf", arm.Config.Arch == "arm64", strings.Contains(arm.Kernel, "/armhf"):
		return 13 * time.Second
	}
	return 6 * time.Second
}

// builds lists the kernels that the plan's arms are built on, each once, those of one configuration one after the other.
func (p provePlan) builds() ([]proveBuild, error) {
	var list []proveBuild
	for _, a := range p.e.Arms {
		if a.Kernel != p.Kernel || experiment.IsModel(a.Kernel) {
			continue
		}
		what := kimage.BuildOf(a)
		i := slices.IndexFunc(list, func(b proveBuild) bool { return b.what.String() == what.String() })
		if i < 0 {
			spec, err := kimage.ParseSpec(a.Kernel)
			if err != nil {
				return nil, err
			}
			list = append(list, proveBuild{spec: spec, what: what})
			i = len(list) - 1
		}
		list[i].arms = append(list[i].arms, a.Name)
	}
	return list, nil
}

// look finds out what of builds, all of one source, is there already.
func look(ctx context.Context, store kimage.Store, builds []proveBuild) error {
	if len(builds) == 0 {
		return nil
	}
	var what []kimage.Build
	for _, b := range builds {
		what = append(what, b.what)
	}
	list, err := store.Outlook(ctx, builds[0].spec, what...)
	for i, o := range list {
		builds[i].Outlook = o
	}
	return err
}

// buildTime estimates what each of builds takes, one after the other.
func buildTime(builds []proveBuild, cpus int) []time.Duration {
	times := make([]time.Duration, len(builds))
	started := map[string]bool{}
	for i, b := range builds {
		switch {
		case b.Cached:
		case b.Again || started[b.Objects]:
			times[i] = againBuild
		default:
			times[i] = wholeBuild / time.Duration(cpus)
		}
		started[b.Objects] = started[b.Objects] || !b.Cached
	}
	return times
}

// trialTime estimates what trials take on slots side by side.
func trialTime(trials []experiment.Trial, slots int) time.Duration {
	sum := time.Duration(0)
	for _, t := range trials {
		sum += t.Arm.Duration + bootTime(t.Arm)
	}
	return sum / time.Duration(max(1, slots))
}

// tell writes what the plan will do and how long that takes.
func (p provePlan) tell(w io.Writer, builds []proveBuild, slots int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s for %s) under %s\n", p.Kernel, p.Release, p.Arch, p.models())
	cpus := runtime.NumCPU()
	times := buildTime(builds, cpus)
	whole := time.Duration(0)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, x := range builds {
		whole += times[i]
		fmt.Fprintf(t, "  build %d\t%s\t%s\tfor %s\n", i+1, x.what, x.outlook(times[i]), listAnd(x.arms))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(builds) > 0 {
		fmt.Fprintf(&b, "%s to build, %s on %d CPUs\n", kernelsWord(builds), about(whole), cpus)
	}
	if !p.claims() {
		fmt.Fprintln(&b, "nothing of this can prove a patch: under full and lazy the kernel preempts the thread, and stock kernels don't stall;",
			"--allow-kconfig builds none where Kconfig forbids it, --arch armhf has voluntary")
	}
	trials := experiment.Plan(p.e)
	run := trialTime(trials, slots)
	fmt.Fprintf(&b, "%s of %s", several(len(trials), "trial"), several(len(p.e.Arms), "arm"))
	if !experiment.IsModel(p.Kernel) { // the simulator's time is another
		fmt.Fprintf(&b, ", %s", about(run))
	}
	fmt.Fprintln(&b)
	if whole > 0 {
		fmt.Fprintf(&b, "in all %s\n", about(whole+run))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// claims reports whether an arm of the source is under a model that doesn't preempt.
func (p provePlan) claims() bool {
	return slices.ContainsFunc(p.e.Arms, func(a experiment.Arm) bool { return a.Kernel == p.Kernel && !a.Preempt.Preempts() })
}

func (b proveBuild) outlook(t time.Duration) string {
	if b.Cached {
		return "in the cache"
	}
	return about(t)
}

func kernelsWord(builds []proveBuild) string {
	n := 0
	for _, b := range builds {
		if !b.Cached {
			n++
		}
	}
	return fmt.Sprintf("%d of %s", n, several(len(builds), "kernel"))
}

// several is "1 trial" or "2 trials".
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// about is a rough length of time.
func about(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("about %d s", int(d.Seconds()))
	}
	return fmt.Sprintf("about %d min", int((d + 30*time.Second).Minutes()))
}

// listAnd makes "a, b and c" of a list.
func listAnd(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
