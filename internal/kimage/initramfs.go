package kimage

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"
)

// WriteInitramfs writes the uncompressed newc archive that img boots with: agent as /init, the trial
// as /napistall/trial.json, img's modules as /napistall/modules/NN-name.ko in load order, and the
// mount points that the agent needs. The same input gives the same bytes.
func WriteInitramfs(w io.Writer, img *Image, agent, trial []byte) error {
	records := []cpio.Record{
		cpio.CharDev("dev/console", 0o600, 5, 1), // for init's standard files, before devtmpfs is mounted
		cpio.StaticRecord(agent, cpio.Info{Name: "init", Mode: cpio.S_IFREG | 0o755}),
		cpio.StaticRecord(trial, cpio.Info{Name: "napistall/trial.json", Mode: cpio.S_IFREG | 0o644}),
	}
	for i, m := range img.Modules {
		data, err := os.ReadFile(m.Path)
		if err != nil {
			return fmt.Errorf("write the initramfs: module %s: %w", m.Name, err)
		}
		name := fmt.Sprintf("napistall/modules/%02d-%s.ko", i, m.Name)
		records = append(records, cpio.StaticRecord(data, cpio.Info{Name: name, Mode: cpio.S_IFREG | 0o644}))
	}
	records = append(directories(records), records...)
	out := cpio.Newc.Writer(w)
	for i, r := range records {
		r.Ino, r.NLink = uint64(i+1), 1
		if err := out.WriteRecord(r); err != nil {
			return fmt.Errorf("write the initramfs: %w", err)
		}
	}
	if err := cpio.WriteTrailer(out); err != nil {
		return fmt.Errorf("write the initramfs: %w", err)
	}
	return nil
}

// directories returns the mount points, and every directory that records need, parents first.
func directories(records []cpio.Record) []cpio.Record {
	names := []string{"proc", "sys", "dev", "tmp", "run", "napistall/modules"}
	for _, r := range records {
		names = append(names, path.Dir(r.Name))
	}
	for _, name := range slices.Clone(names) {
		for name = path.Dir(name); name != "."; name = path.Dir(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names) // a parent is a prefix of its children, so it comes first
	var dirs []cpio.Record
	for _, name := range slices.Compact(names) {
		if name != "." {
			dirs = append(dirs, cpio.Directory(name, 0o755))
		}
	}
	return dirs
}
