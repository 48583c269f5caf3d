package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
)

// sourceOf returns the source as a kernel spec that holds wherever the run is gone on with, and its release.
func (c proveCommand) sourceOf(ctx context.Context) (spec string, r experiment.Release, err error) {
	if c.source != "" {
		spec = "debian-source:" + c.source
		if _, err := kimage.ParseSpec(spec); err != nil {
			return "", r, err
		}
		r, err = parseProveRelease(c.source)
		if err != nil {
			return "", r, usagef("--debian-source %s: %w: want a package such as linux-source-6.12, whose name says so", c.source, err)
		}
		return spec, r, nil
	}
	tree, makefile, err := readTree(ctx, "tree:"+c.tree)
	if wrong, ok := errors.AsType[*kimage.SpecError](err); ok {
		return "", r, usagef("--tree %s: %s", c.tree, wrong.Msg)
	}
	if err != nil {
		return "", r, notHere(err)
	}
	if r, err = makefileRelease(string(makefile)); err != nil {
		return "", r, usagef("--tree %s: that is no kernel source: %w", c.tree, err)
	}
	return tree.String(), r, nil
}

// readTree finds a tree and returns its Makefile.
func readTree(ctx context.Context, text string) (tree kimage.TreeAt, makefile []byte, err error) {
	spec, err := kimage.ParseSpec(text)
	if err != nil {
		return tree, nil, err
	}
	if tree, err = kimage.FindTree(spec); err != nil {
		return tree, nil, err
	}
	makefile, err = tree.ReadFile(ctx, "Makefile")
	return tree, makefile, err
}

var (
	makefileNumber = regexp.MustCompile(`(?m)^(VERSION|PATCHLEVEL)\s*=\s*(\d+)\s*$`)
	releaseNumber  = regexp.MustCompile(`(\d+)\.(\d+)[^/]*$`)
)

// makefileRelease reads a kernel's release out of its Makefile.
func makefileRelease(text string) (experiment.Release, error) {
	numbers := map[string]string{}
	for _, m := range makefileNumber.FindAllStringSubmatch(text, -1) {
		if numbers[m[1]] == "" {
			numbers[m[1]] = m[2]
		}
	}
	if numbers["VERSION"] == "" || numbers["PATCHLEVEL"] == "" {
		return experiment.Release{}, errors.New("its Makefile has no VERSION and PATCHLEVEL")
	}
	return parseProveRelease(numbers["VERSION"] + "." + numbers["PATCHLEVEL"])
}

// parseProveRelease finds a release at the end of a text such as trixie/linux-source-6.12.
func parseProveRelease(text string) (experiment.Release, error) {
	var r experiment.Release
	m := releaseNumber.FindStringSubmatch(text)
	if m == nil {
		return r, errors.New("no release is in it")
	}
	if _, err := fmt.Sscanf(m[1]+" "+m[2], "%d %d", &r.Major, &r.Minor); err != nil {
		return r, fmt.Errorf("read the release %s.%s: %w", m[1], m[2], err)
	}
	return r, nil
}

// outOfTree returns the directory below which a run is kept: runs where we are, unless that is in the tree, where
// it would be taken for a part of it.
func (p provePlan) outOfTree() (string, error) {
	const here = "runs"
	if !strings.HasPrefix(p.Kernel, "tree:") {
		return here, nil
	}
	spec, err := kimage.ParseSpec(p.Kernel)
	if err != nil {
		return "", err
	}
	tree, err := kimage.FindTree(spec)
	if err != nil {
		return "", err
	}
	if in, err := inside(tree.Dir); err != nil || !in {
		return here, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", usagef("this is the tree itself, where no run is kept, and %w: say where with --dir", err)
	}
	return filepath.Join(cache, "napistall", here), nil
}

// inside reports whether we are in dir or below it, by whatever links.
func inside(dir string) (bool, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	cwd, err := os.Getwd()
	if err == nil {
		cwd, err = filepath.EvalSymlinks(cwd)
	}
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(dir, cwd)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../"), err
}
