package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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
	path, rev := splitTree(c.tree)
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", r, fmt.Errorf("find %s: %w", path, err)
		}
		path = filepath.Join(home, rest)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", r, err
	}
	makefile, err := treeMakefile(ctx, path, rev)
	if err != nil {
		return "", r, err
	}
	if r, err = makefileRelease(makefile); err != nil {
		return "", r, usagef("--tree %s: that is no kernel source: %w", c.tree, err)
	}
	spec = "tree:" + path
	if rev != "" {
		spec += "@" + rev
	}
	return spec, r, nil
}

// splitTree cuts PATH@REV. A directory whose name has the @ in it is one.
func splitTree(tree string) (path, rev string) {
	at := strings.LastIndexByte(tree, '@')
	if _, err := os.Stat(tree); err == nil || at < 0 {
		return tree, ""
	}
	return tree[:at], tree[at+1:]
}

// treeMakefile returns the Makefile of a tree as it stands, or at a revision.
func treeMakefile(ctx context.Context, path, rev string) (string, error) {
	if rev == "" {
		text, err := os.ReadFile(filepath.Join(path, "Makefile"))
		if errors.Is(err, fs.ErrNotExist) {
			return "", usagef("--tree %s: that is no kernel source: it has no Makefile", path)
		}
		return string(text), err
	}
	if _, err := os.Stat(path); err != nil {
		return "", usagef("--tree %s: there is no such directory", path)
	}
	cmd := exec.CommandContext(ctx, "git", "-C", path, "show", rev+":Makefile")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		first, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", usagef("--tree %s@%s: %s", path, rev, first)
	}
	if err != nil {
		return "", fmt.Errorf("read %s at %s: %w", path, rev, err)
	}
	return string(out), nil
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
func (c proveCommand) outOfTree() (string, error) {
	const here = "runs"
	if c.tree == "" {
		return here, nil
	}
	path, _ := splitTree(c.tree)
	tree, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	cwd, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(tree, cwd); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return here, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", usagef("this is the tree itself, where no run is kept, and %w: say where with --dir", err)
	}
	return filepath.Join(cache, "napistall", here), nil
}
