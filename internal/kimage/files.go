package kimage

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// moduleFile matches a module's file name.
var moduleFile = regexp.MustCompile(`^(.+)\.ko(\.xz|\.zst|\.gz)?$`)

// fetchFile takes a kernel image, and modules if spec names a directory of them.
func (s Store) fetchFile(ctx context.Context, spec Spec) (*Image, error) {
	name, err := s.userFile(spec, spec.Files[0])
	if err != nil {
		return nil, err
	}
	p := parcel{image: name, imageFrom: name, modules: map[string][]byte{}}
	if spec.Modules != "" {
		dir, err := s.userFile(spec, spec.Modules)
		if err != nil {
			return nil, err
		}
		if err := p.readModules(ctx, dir); err != nil {
			return nil, fmt.Errorf("kernel %q: %w", spec, err)
		}
		if len(p.modules) == 0 {
			return nil, &SpecError{spec.String(), fmt.Sprintf("none of the modules %s is in %s", strings.Join(wantedModules(), ", "), dir)}
		}
		p.readConfig(dir)
	}
	return s.fromFiles(ctx, spec, p)
}

// fetchHost takes the kernel that this machine runs, from where distributions install it.
func (s Store) fetchHost(ctx context.Context, spec Spec) (*Image, error) {
	text, err := os.ReadFile(s.file("proc/sys/kernel/osrelease"))
	if err != nil {
		return nil, unsupportedError(fmt.Sprintf("kernel %q: this machine doesn't say which kernel it runs: %v", spec, err))
	}
	release := strings.TrimSpace(string(text))
	p := parcel{release: release, modules: map[string][]byte{}}
	images := []string{"boot/vmlinuz-" + release, "usr/lib/modules/" + release + "/vmlinuz",
		"lib/modules/" + release + "/vmlinuz", "boot/Image-" + release}
	for _, name := range images {
		if _, err := os.Stat(s.file(name)); err == nil {
			p.image, p.imageFrom = s.file(name), s.file(name)
			break
		}
	}
	if p.image == "" {
		return nil, unsupportedError(fmt.Sprintf("kernel %q: the image of the running kernel %s is not installed (looked for /%s): "+
			"use debian:SUITE or file:IMAGE", spec, release, strings.Join(images, ", /")))
	}
	for _, dir := range []string{"lib/modules/", "usr/lib/modules/"} {
		if _, err := os.Stat(s.file(dir + release)); err == nil {
			if err := p.readModules(ctx, s.file(dir+release)); err != nil {
				return nil, fmt.Errorf("kernel %q: %w", spec, err)
			}
			p.readConfig(s.file(dir + release))
			break
		}
	}
	for _, name := range []string{"boot/config-" + release, "proc/config.gz"} {
		if p.config == nil {
			p.useConfig(s.file(name))
		}
	}
	return s.fromFiles(ctx, spec, p)
}

// readModules finds the wanted modules and what they depend on under dir.
func (p *parcel) readModules(ctx context.Context, dir string) error {
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if m := moduleFile.FindStringSubmatch(d.Name()); m != nil && d.Type().IsRegular() {
			found[moduleName(m[1])] = path
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for modules: %w", err)
	}
	for want := wantedModules(); len(want) > 0; {
		read := 0
		for _, name := range want {
			path, ok := found[name]
			if !ok || p.modules[name] != nil {
				continue
			}
			if p.modules[name], err = readModule(path); err != nil {
				return fmt.Errorf("module %s: %w", path, err)
			}
			read++
		}
		if want, err = missingDeps(p.modules); err != nil || read == 0 {
			return err
		}
	}
	return nil
}

func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decompressModule(f, moduleFile.FindStringSubmatch(filepath.Base(path))[2])
}

// readConfig takes the configuration that lies beside modules, if one does.
func (p *parcel) readConfig(dir string) {
	for _, name := range []string{"config", ".config", "build/.config"} {
		if p.config == nil {
			p.useConfig(filepath.Join(dir, name))
		}
	}
}

// useConfig takes name as the configuration if it can be read.
func (p *parcel) useConfig(name string) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	var r io.Reader = f
	if filepath.Ext(name) == ".gz" {
		if r, err = gzip.NewReader(f); err != nil {
			return
		}
	}
	if text, err := readLimited(r, maxConfig); err == nil {
		p.config, p.configFrom = text, name
	}
}

// fromFiles makes an image of what lies on this machine: as it is where no module needs unpacking,
// else as a copy in the cache.
func (s Store) fromFiles(ctx context.Context, spec Spec, p parcel) (*Image, error) {
	head, err := identifyFile(p.image)
	if errors.Is(err, errNoKernel) {
		return nil, &SpecError{spec.String(), fmt.Sprintf("%s: %v", p.imageFrom, err)}
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", spec, err)
	}
	sum, _, err := digestFile(p.image)
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", spec, err)
	}
	if p.release == "" {
		if p.release, err = releaseOf(ctx, p.image); err != nil {
			return nil, fmt.Errorf("kernel %q: %w", spec, err)
		}
	}
	if err := p.sameRelease(spec); err != nil {
		return nil, err
	}
	if len(p.modules) == 0 && head.format != formatZboot {
		a, _ := archOf(head.arch)
		img := &Image{Release: p.release, Arch: head.arch, GOARCH: a.goarch, Path: p.image, Digest: sum, ConfigFrom: p.configFrom}
		if p.config != nil {
			img.Config = configLines(p.config)
		}
		return img, nil
	}
	img, err := s.entry(ctx, p.key(sum), func(dir string) error {
		f, err := os.Open(p.image)
		if err != nil {
			return err
		}
		defer f.Close()
		p := p
		p.image = filepath.Join(dir, "vmlinuz")
		if err := writeLimited(p.image, f, maxImage); err != nil {
			return err
		}
		return p.finish(dir, manifest{Arch: head.arch})
	})
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", spec, err)
	}
	return img, nil
}

// key names the entry that p makes.
func (p parcel) key(image string) string {
	inputs := []string{"files", image, p.release, string(p.config)}
	for name, data := range p.modules {
		sum := sha256.Sum256(data)
		inputs = append(inputs, name+" "+hex.EncodeToString(sum[:]))
	}
	slices.Sort(inputs[4:])
	return keyOf(inputs)
}

// sameRelease refuses modules that were built for another kernel: it would not load them.
func (p parcel) sameRelease(spec Spec) error {
	for name, data := range p.modules {
		info, err := parseModInfo(data)
		if err != nil {
			return fmt.Errorf("kernel %q: module %s: %w", spec, name, err)
		}
		built, _, _ := strings.Cut(info.vermagic, " ")
		if built != "" && p.release != "" && built != p.release {
			return &SpecError{spec.String(), fmt.Sprintf("the kernel is %s, but module %s was built for %s", p.release, name, built)}
		}
	}
	return nil
}
