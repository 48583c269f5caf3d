package qemu

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
)

// A kernel is what a guest is booted with, and what is known of it before it has booted.
type kernel struct {
	spec     string // the arm's own, or the alternative that was had instead
	image    string // path
	goarch   string
	release  string
	channels channels
	dynamic  bool           // PREEMPT_DYNAMIC, or not known: the command line may choose the model
	preempt  rcu.Preemption // in force without preempt=; empty if unknown
	hz       int            // 0 if unknown
	config   []string       // CONFIG_ lines that matter; empty if unknown
	// source and kconfigDiff are kimage.Image's.
	source, kconfigDiff string
	// accepts returns whether it can run under a model, and why not; nil accepts all.
	accepts func(rcu.Preemption) (bool, string)
	// write writes the initramfs for a trial.
	write func(io.Writer, experiment.Trial) error
}

// An unsupportedError matches errors.ErrUnsupported without its text.
type unsupportedError string

func (e unsupportedError) Error() string        { return string(e) }
func (e unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// kernel fetches arm's kernel, or the first of its alternatives that can be had. Only a kernel that
// doesn't exist, or that this machine can never get, is passed over: a network that fails for a
// moment must not change what a trial measures.
func (b Backend) kernel(ctx context.Context, arm experiment.Arm) (kernel, error) {
	if b.fetch != nil {
		return b.fetch(ctx, arm)
	}
	var errs []error
	for _, text := range append([]string{arm.Kernel}, arm.KernelElse...) {
		k, err := b.fetchSpec(ctx, text, arm)
		if err == nil {
			k.spec = text
			if len(errs) > 0 {
				b.log(fmt.Sprintf("arm %s runs %s (%s): %v", arm.Name, text, k.release, errors.Join(errs...)))
			}
			return k, nil
		}
		errs = append(errs, err)
		var missing *kimage.SpecError
		if !errors.As(err, &missing) && !errors.Is(err, errors.ErrUnsupported) {
			break
		}
	}
	return kernel{}, errors.Join(errs...)
}

// fetchSpec gets a kernel, building it as arm wishes where it is source, and looks at it. What can be
// said without it is said before it is downloaded.
func (b Backend) fetchSpec(ctx context.Context, text string, arm experiment.Arm) (kernel, error) {
	spec, err := kimage.ParseSpec(text)
	if err != nil {
		return kernel{}, err
	}
	arch := spec.Arch
	if spec.Built() {
		arch = cmp.Or(arm.Config.Arch, kimage.BuildArch)
	}
	if m, ok := machineOf(arch); ok && b.Binary == "" {
		if _, err := m.find(); err != nil {
			return kernel{}, err
		}
	}
	img, err := b.image(ctx, spec, arm)
	if err != nil {
		return kernel{}, err
	}
	found, err := kimage.Inspect(ctx, img)
	if err != nil {
		return kernel{}, err
	}
	if err := found.Check(); err != nil {
		return kernel{}, err
	}
	if _, err := kimage.Agent(img.GOARCH); err != nil {
		return kernel{}, err
	}
	return kernel{
		image:    img.Path,
		goarch:   img.GOARCH,
		release:  found.Release,
		channels: channelsOf(found.VirtioConsole),
		dynamic:  found.Dynamic != kimage.No,
		preempt:  found.Preempt,
		hz:       found.HZ,
		config:   slices.DeleteFunc(slices.Clone(img.Config), func(line string) bool { return !rcu.Decides(line) }),
		accepts:  found.AcceptsPreempt,
		source:   img.Source, kconfigDiff: img.KconfigDiff,
		write: func(w io.Writer, trial experiment.Trial) error {
			return writeInitramfs(w, img, trial)
		},
	}, nil
}

func (b Backend) image(ctx context.Context, spec kimage.Spec, arm experiment.Arm) (*kimage.Image, error) {
	if !spec.Built() {
		return b.Store.Fetch(ctx, spec)
	}
	if built := arm.Config.Preempt; built != "" && arm.Preempt != "" && arm.Preempt != built {
		// A kernel with one model ignores preempt=; better now than after a build.
		return nil, unsupportedError(fmt.Sprintf("arm %s: a kernel built with config preempt %s can't run with preempt %s: name one of them",
			arm.Name, built, arm.Preempt))
	}
	return b.Store.Build(ctx, spec, kimage.BuildOf(arm))
}

// channelsOf offers a second serial port to a kernel that may have no virtio-serial.
func channelsOf(virtio kimage.Support) channels {
	return channels{virtio: virtio != kimage.No, serial: !virtio.Has()}
}

func writeInitramfs(w io.Writer, img *kimage.Image, trial experiment.Trial) error {
	agent, err := kimage.Agent(img.GOARCH)
	if err != nil {
		return err
	}
	text, err := json.Marshal(trial)
	if err != nil {
		return fmt.Errorf("encode the trial: %w", err)
	}
	return kimage.WriteInitramfs(w, img, agent, text)
}

// refuse returns why k can't run arm, before it is booted.
func (k kernel) refuse(arm experiment.Arm) error {
	if k.accepts == nil {
		return nil
	}
	if ok, why := k.accepts(arm.Preempt); !ok {
		return unsupportedError(fmt.Sprintf("arm %s: %s", arm.Name, why))
	}
	return nil
}

// hint says what to do about a guest that came up with another model than p.
func (k kernel) hint(p rcu.Preemption) string {
	switch {
	case k.dynamic:
		return "its parameter preempt=" + string(p) + " was not taken"
	case k.preempt != "":
		return fmt.Sprintf("it was built with %s and without PREEMPT_DYNAMIC", k.preempt)
	}
	return ""
}

// initramfs returns the initramfs for trial as a file in memory, which the caller closes.
func (k kernel) initramfs(trial experiment.Trial) (*os.File, error) {
	f, err := memory("initramfs")
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 256<<10)
	if err := k.write(w, trial); err != nil {
		_ = f.Close() // only memory
		return nil, err
	}
	if err := w.Flush(); err != nil {
		_ = f.Close() // only memory
		return nil, err
	}
	return f, nil
}
