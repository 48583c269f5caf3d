package kimage

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSpec(t *testing.T) {
	tests := []struct {
		text string
		want Spec
	}{
		{"host", Spec{Kind: Host}},
		{"debian:sid", Spec{Kind: Debian, Suite: "sid"}},
		{"debian:trixie-backports/amd64/cloud-amd64/6.18.15+deb13",
			Spec{Kind: Debian, Suite: "trixie-backports", Arch: "amd64", Flavour: "cloud-amd64", Release: "6.18.15+deb13"}},
		{"deb:a.deb,/b/c.deb", Spec{Kind: Deb, Files: []string{"a.deb", "/b/c.deb"}}},
		{"file:~/bzImage", Spec{Kind: File, Files: []string{"~/bzImage"}}},
		{"file:Image,modules=/lib/m", Spec{Kind: File, Files: []string{"Image"}, Modules: "/lib/m"}},
		{"tree:~/linux", Spec{Kind: Tree, Path: "~/linux"}},
		{"debian-source:sid/linux", Spec{Kind: DebianSource, Suite: "sid", Package: "linux"}},
	}
	for _, tt := range tests {
		got, err := ParseSpec(tt.text)
		if err != nil {
			t.Errorf("ParseSpec(%q): %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseSpec(%q) (-want +got):\n%s", tt.text, diff)
		}
		if s := got.String(); s != tt.text {
			t.Errorf("ParseSpec(%q).String() = %q", tt.text, s)
		}
	}
}

func TestParseSpecErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "want debian:SUITE"},
		{"sid", "want debian:SUITE"},
		{"fedora:41", "want debian:SUITE"},
		{"debian:", `"" is no suite`},
		{"debian:../etc", `".." is no suite`},
		{"debian:sid/AMD64", `"AMD64" is no architecture`},
		{"debian:sid//x", `"" is no architecture`},
		{"debian:sid/amd64/cloud_x", `"cloud_x" is no flavour`},
		{"debian:sid/amd64/amd64/new", `"new" is no release`},
		{"debian:sid/amd64/amd64/6.1/x", "nothing after the release"},
		{"deb:a.deb,", "no empty name"},
		{"file:", "want file:IMAGE"},
		{"file:a,b", "want file:IMAGE[,modules=DIR]"},
		{"file:a,modules=", "want file:IMAGE[,modules=DIR]"},
		{"tree:", "want tree:PATH"},
		{"debian-source:sid", "want debian-source:SUITE/PACKAGE"},
		{"model:6.6", "want model:GENERATION[/ARCH]"},
	}
	for _, tt := range tests {
		_, err := ParseSpec(tt.text)
		var wrong *SpecError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) || wrong.Spec != tt.text {
			t.Errorf("ParseSpec(%q) = %v; want a SpecError with %q", tt.text, err, tt.want)
		}
	}
}

func TestParseSpecOfTheSimulator(t *testing.T) {
	_, err := ParseSpec("model:7.3/arm64")
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "kernel model:7.3/arm64: only the simulator has it: --backend sim") {
		t.Errorf("ParseSpec of a model kernel: %v; want that only the simulator has it", err)
	}
}

// A spec that is accepted is written back as it was, and its parts are safe as names.
func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"host", "debian:sid/armhf/armmp/7.2", "deb:a,b", "file:x,modules=y", "tree:a", "debian-source:sid/linux", "debian:a/b", "model:7.3/amd64"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		if spec.String() != text {
			t.Errorf("ParseSpec(%q).String() = %q", text, spec)
		}
		again, err := ParseSpec(spec.String())
		if err != nil || !cmp.Equal(spec, again) {
			t.Errorf("ParseSpec(%q) again: %v, %v", text, again, err)
		}
		for _, part := range []string{spec.Suite, spec.Arch, spec.Flavour, spec.Release} {
			if strings.ContainsAny(part, "/\"\n ") || strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") {
				t.Errorf("ParseSpec(%q) has the part %q", text, part)
			}
		}
	})
}
