package kimage

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
)

// A Kind says where a kernel comes from.
type Kind string

// The kinds of spec.
const (
	Debian       Kind = "debian"        // a suite of the machine's Debian mirror
	Deb          Kind = "deb"           // package files
	File         Kind = "file"          // a kernel image
	Host         Kind = "host"          // the kernel that runs this machine
	Tree         Kind = "tree"          // a source tree
	DebianSource Kind = "debian-source" // a Debian source package
)

// A Spec names a kernel. What the user left out is empty here; Fetch fills it in.
type Spec struct {
	Kind Kind
	// For Debian (and Suite for DebianSource):
	Suite   string
	Arch    string // Debian's name; default: this machine's
	Flavour string // default: the smallest that boots in QEMU, such as cloud-amd64 or armmp
	Release string // a release or its beginning, "6.18" or "6.18.15+deb13"; default: the newest
	// Files are the packages of Deb, or the image of File.
	Files []string
	// Modules is File's directory of modules; may be empty.
	Modules string
	// Path is the source of Tree, with @ and a revision behind it if one is named; Package that of DebianSource.
	Path    string
	Package string
}

// specForms is the answer to a spec that has no known form.
const specForms = "want debian:SUITE[/ARCH[/FLAVOUR[/RELEASE]]], deb:FILE[,FILE…], file:IMAGE[,modules=DIR], host, tree:PATH[@REV] or debian-source:SUITE/PACKAGE"

var (
	suiteForm   = regexp.MustCompile(`^[a-z][a-z0-9.-]*$`)
	archForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	flavourForm = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*$`)
	releaseForm = regexp.MustCompile(`^[0-9][A-Za-z0-9+.~-]*$`)
)

// ParseSpec returns the kernel that s names. Its error is a *SpecError that says which forms there
// are, or matches errors.ErrUnsupported for a kernel that only the simulator has. It looks at no file:
// whether the kernel exists is found out by Fetch.
func ParseSpec(s string) (Spec, error) {
	kind, rest, colon := strings.Cut(s, ":")
	if experiment.IsModel(s) {
		if _, err := experiment.ParseModelKernel(s); err != nil {
			return Spec{}, &SpecError{s, err.Error()}
		}
		return Spec{}, fmt.Errorf("kernel %s: only the simulator has it: --backend sim: %w", s, errors.ErrUnsupported)
	}
	if s == string(Host) {
		return Spec{Kind: Host}, nil
	}
	if !colon {
		return Spec{}, &SpecError{s, specForms}
	}
	switch Kind(kind) {
	case Debian:
		return parseDebian(s, rest)
	case Deb:
		return parseDebs(s, rest)
	case File:
		return parseFile(s, rest)
	case Tree:
		if rest == "" {
			return Spec{}, &SpecError{s, "want tree:PATH or tree:PATH@REV"}
		}
		return Spec{Kind: Tree, Path: rest}, nil
	case DebianSource:
		suite, pkg, _ := strings.Cut(rest, "/")
		if !suiteForm.MatchString(suite) || !flavourForm.MatchString(pkg) {
			return Spec{}, &SpecError{s, "want debian-source:SUITE/PACKAGE"}
		}
		return Spec{Kind: DebianSource, Suite: suite, Package: pkg}, nil
	}
	return Spec{}, &SpecError{s, specForms}
}

func parseDebian(s, rest string) (Spec, error) {
	parts := strings.Split(rest, "/")
	if len(parts) > 4 {
		return Spec{}, &SpecError{s, "want debian:SUITE[/ARCH[/FLAVOUR[/RELEASE]]], nothing after the release"}
	}
	spec := Spec{Kind: Debian}
	fields := []struct {
		to   *string
		form *regexp.Regexp
		what string
	}{
		{&spec.Suite, suiteForm, "suite, such as sid or trixie-backports"},
		{&spec.Arch, archForm, "architecture, such as amd64 or armhf"},
		{&spec.Flavour, flavourForm, "flavour, such as cloud-amd64 or armmp"},
		{&spec.Release, releaseForm, "release, such as 6.18 or 6.18.15+deb13"},
	}
	for i, part := range parts {
		if !fields[i].form.MatchString(part) {
			return Spec{}, &SpecError{s, fmt.Sprintf("%q is no %s", part, fields[i].what)}
		}
		*fields[i].to = part
	}
	return spec, nil
}

func parseDebs(s, rest string) (Spec, error) {
	files := strings.Split(rest, ",")
	for _, f := range files {
		if f == "" {
			return Spec{}, &SpecError{s, "want deb:FILE[,FILE…], no empty name"}
		}
	}
	return Spec{Kind: Deb, Files: files}, nil
}

func parseFile(s, rest string) (Spec, error) {
	image, option, comma := strings.Cut(rest, ",")
	dir, ok := strings.CutPrefix(option, "modules=")
	if image == "" || comma && (!ok || dir == "") {
		return Spec{}, &SpecError{s, "want file:IMAGE[,modules=DIR]"}
	}
	return Spec{Kind: File, Files: []string{image}, Modules: dir}, nil
}

// String returns the text that ParseSpec turns into s.
func (s Spec) String() string {
	switch s.Kind {
	case Debian:
		parts := []string{s.Suite}
		for _, p := range []string{s.Arch, s.Flavour, s.Release} {
			if p == "" {
				break
			}
			parts = append(parts, p)
		}
		return "debian:" + strings.Join(parts, "/")
	case Deb:
		return "deb:" + strings.Join(s.Files, ",")
	case File:
		text := "file:" + strings.Join(s.Files, ",")
		if s.Modules != "" {
			text += ",modules=" + s.Modules
		}
		return text
	case Tree:
		return "tree:" + s.Path
	case DebianSource:
		return "debian-source:" + s.Suite + "/" + s.Package
	}
	return string(s.Kind)
}

// Built reports whether s names source, of which Store.Build makes a kernel.
func (s Spec) Built() bool { return s.Kind == Tree || s.Kind == DebianSource }

// complete returns s with Debian's defaults filled in.
func (s Spec) complete() Spec {
	if s.Arch == "" {
		s.Arch = debianArch(runtime.GOARCH)
	}
	if s.Flavour == "" {
		a, _ := archOf(s.Arch)
		s.Flavour = a.flavour
	}
	return s
}

// pinned reports whether s names one kernel for ever, not "the newest that begins with": Debian's
// full releases carry its own suffix.
func (s Spec) pinned() bool { return strings.ContainsAny(s.Release, "+~-") }
