package kimage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"pault.ag/go/debian/control"
	"pault.ag/go/debian/version"
)

// A Package is a kernel that a suite offers.
type Package struct {
	Name    string // linux-image-6.18.15+deb13-cloud-amd64
	Version string // 6.18.15-1~bpo13+1
	Release string // 6.18.15+deb13: what a spec's RELEASE is compared with
	Flavour string // cloud-amd64
	Arch    string
	Bytes   int64 // size of this package alone; the newer layout's is nearly empty

	depends string
	sha256  string
	version version.Version
}

// imageName takes a kernel package's name apart. The release begins with a digit; before Debian 13
// it has an ABI number after a dash (6.1.0-18), now a suffix after a plus (6.18.15+deb13).
var imageName = regexp.MustCompile(`^linux-image-([0-9][0-9.]*(?:-rc[0-9]+)?(?:-[0-9]{1,2}(?:\.[0-9a-z.]+)?)?(?:[+~][0-9A-Za-z.~+]+)?)-([a-z0-9].*)$`)

// parseImageName returns the release and flavour in a package's name, and whether it is a kernel.
func parseImageName(name string) (release, flavour string, ok bool) {
	m := imageName.FindStringSubmatch(name)
	if m == nil || strings.HasSuffix(name, "-dbg") || strings.HasSuffix(name, "-unsigned") {
		return "", "", false
	}
	return m[1], m[2], true
}

// kernels lists every kernel in the fetched index, oldest first.
func (a aptState) kernels(ctx context.Context) ([]Package, error) {
	out, err := a.run(ctx, a.dir, "apt-cache", "-c", a.conf(), "pkgnames", "linux-image-")
	if err != nil {
		return nil, fmt.Errorf("list kernels of %s: %w", a.suite, err)
	}
	var names []string
	for _, name := range strings.Fields(string(out)) {
		if _, _, ok := parseImageName(name); ok {
			names = append(names, name)
		}
	}
	pkgs, err := a.show(ctx, names)
	if err != nil {
		return nil, err
	}
	sortKernels(pkgs)
	return pkgs, nil
}

// sortKernels puts the oldest first, by Debian's order of versions.
func sortKernels(pkgs []Package) {
	slices.SortStableFunc(pkgs, func(x, y Package) int {
		return cmp.Or(version.Compare(x.version, y.version), strings.Compare(x.Name, y.Name))
	})
}

// show returns the named packages, as far as the index has them: one that is only provided by
// another has no entry.
func (a aptState) show(ctx context.Context, names []string) ([]Package, error) {
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	out, err := a.run(ctx, a.dir, "apt-cache", append([]string{"-c", a.conf(), "show"}, names...)...)
	var failed *aptError
	if errors.As(err, &failed) && failed.has("No packages found") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the package index of %s: %w", a.suite, err)
	}
	return parsePackages(bytes.NewReader(out))
}

// parsePackages reads the stanzas of apt-cache show.
func parsePackages(r io.Reader) ([]Package, error) {
	reader, err := control.NewParagraphReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("read package entries: %w", err)
	}
	var pkgs []Package
	for {
		p, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return pkgs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read package entries: %w", err)
		}
		v, err := version.Parse(p.Values["Version"])
		if err != nil {
			return nil, fmt.Errorf("read package entry %s: %w", p.Values["Package"], err)
		}
		pkg := Package{
			Name: p.Values["Package"], Version: p.Values["Version"], Arch: p.Values["Architecture"],
			depends: p.Values["Depends"], sha256: p.Values["SHA256"], version: v,
		}
		// A missing size only makes a message less exact.
		_, _ = fmt.Sscan(p.Values["Size"], &pkg.Bytes)
		pkg.Release, pkg.Flavour, _ = parseImageName(pkg.Name)
		pkgs = append(pkgs, pkg)
	}
}

// pick returns the newest kernel that spec asks for, out of all sorted oldest first. Its error says
// what there is instead.
func pick(all []Package, spec Spec) (Package, error) {
	if len(all) == 0 {
		return Package{}, &SpecError{spec.String(), fmt.Sprintf("%s has no kernel for %s", spec.Suite, spec.Arch)}
	}
	var flavours, releases []string
	best := -1
	for i, p := range all {
		flavours = append(flavours, p.Flavour)
		if p.Flavour != spec.Flavour {
			continue
		}
		releases = append(releases, p.Release)
		if p.matches(spec.Release) {
			best = i
		}
	}
	switch {
	case best >= 0:
		return all[best], nil
	case len(releases) == 0:
		slices.Sort(flavours)
		return Package{}, &SpecError{spec.String(), fmt.Sprintf("%s has no flavour %s for %s; it has %s",
			spec.Suite, spec.Flavour, spec.Arch, strings.Join(slices.Compact(flavours), ", "))}
	}
	return Package{}, &SpecError{spec.String(), fmt.Sprintf("%s has no release %s of %s; it has %s",
		spec.Suite, spec.Release, spec.Flavour, strings.Join(slices.Compact(releases), ", "))}
}

// matches reports whether want is p's release, its uname -r, its version, or the beginning of one of
// them up to a separator: 6.1 is not the beginning of 6.18.
func (p Package) matches(want string) bool {
	for _, have := range []string{p.Release, p.Release + "-" + p.Flavour, p.Version} {
		if rest, ok := strings.CutPrefix(have, want); ok && (rest == "" || want == "" || strings.ContainsAny(rest[:1], ".+-~")) {
			return true
		}
	}
	return false
}

// parts returns the names of the packages that hold p's files: before the split layout p alone,
// since then those that it depends on, besides p.
func (p Package) parts() []string {
	names := []string{p.Name}
	uname := p.Release + "-" + p.Flavour
	for _, dep := range strings.FieldsFunc(p.depends, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(dep), " ")
		if name == "linux-binary-"+uname || name == "linux-modules-"+uname || name == "linux-base-"+uname {
			names = append(names, name)
		}
	}
	return names
}
