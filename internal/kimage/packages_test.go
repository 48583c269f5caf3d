package kimage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseImageName(t *testing.T) {
	tests := []struct{ name, release, flavour string }{
		{"linux-image-7.2.13+deb14-armmp", "7.2.13+deb14", "armmp"},
		{"linux-image-7.2.13+deb14-armmp-lpae", "7.2.13+deb14", "armmp-lpae"},
		{"linux-image-6.18.15+deb13-cloud-amd64", "6.18.15+deb13", "cloud-amd64"},
		{"linux-image-6.12.117+deb13-arm64-16k", "6.12.117+deb13", "arm64-16k"},
		{"linux-image-6.1.0-18-amd64", "6.1.0-18", "amd64"},
		{"linux-image-6.1.0-0.deb11.13-rt-amd64", "6.1.0-0.deb11.13", "rt-amd64"},
		{"linux-image-7.3-cloud-arm64", "7.3", "cloud-arm64"},
		{"linux-image-6.5.0-rc4-686-pae", "6.5.0-rc4", "686-pae"},
		{"linux-image-amd64", "", ""},
		{"linux-image-7.3.4+deb13-amd64-dbg", "", ""},
		{"linux-image-6.12.117+deb13-amd64-unsigned", "", ""},
	}
	for _, tt := range tests {
		release, flavour, ok := parseImageName(tt.name)
		if release != tt.release || flavour != tt.flavour || ok != (tt.release != "") {
			t.Errorf("parseImageName(%s) = %q, %q, %v; want %q, %q", tt.name, release, flavour, ok, tt.release, tt.flavour)
		}
	}
}

func TestMatches(t *testing.T) {
	p := Package{Release: "6.18.15+deb13", Flavour: "cloud-amd64", Version: "6.18.15-1~bpo13+1"}
	for want, ok := range map[string]bool{
		"": true, "6": true, "6.18": true, "6.18.15": true, "6.18.15+deb13": true, "6.18.15+deb13-cloud-amd64": true,
		"6.18.15-1~bpo13+1": true, "6.1": false, "6.18.1": false, "6.18.15+deb1": false, "7": false, "6.18.15+deb14": false,
	} {
		if got := p.matches(want); got != ok {
			t.Errorf("%s matches(%q) = %v; want %v", p.Release, want, got, ok)
		}
	}
}

// Debian's order of versions is not that of strings: ~rc comes before the release, 6.9 before 6.10.
func TestParsePackagesAndPick(t *testing.T) {
	var b strings.Builder
	for _, p := range [][2]string{
		{"linux-image-6.9.1+deb13-amd64", "6.9.1-1"}, {"linux-image-7.3-amd64", "7.3~rc7-1~exp1"},
		{"linux-image-6.10.2+deb13-amd64", "6.10.2-1"}, {"linux-image-7.3+deb14-amd64", "7.3-1"},
	} {
		b.WriteString("Package: " + p[0] + "\nVersion: " + p[1] + "\nArchitecture: amd64\nDescription: a\n b\n .\n c\nSize: 1234\n\n")
	}
	all, err := parsePackages(strings.NewReader(b.String()))
	if err != nil || len(all) != 4 || all[0].Bytes != 1234 {
		t.Fatalf("parsePackages = %+v, %v", all, err)
	}
	sortKernels(all)
	for want, release := range map[string]string{"": "7.3+deb14", "6": "6.10.2+deb13", "6.9": "6.9.1+deb13", "7.3~rc7": "7.3"} {
		p, err := pick(all, Spec{Kind: Debian, Suite: "sid", Arch: "amd64", Flavour: "amd64", Release: want})
		if err != nil || p.Release != release {
			t.Errorf("pick(%q) = %s, %v; want %s", want, p.Release, err, release)
		}
	}
}

func TestParts(t *testing.T) {
	p := Package{Name: "linux-image-7.3.4+deb13-amd64", Release: "7.3.4+deb13", Flavour: "amd64",
		depends: "dracut | initramfs-tools (>= 0.120) | linux-initramfs-tool, kmod, linux-base-7.3.4+deb13-amd64 (= 7.3.4-1), " +
			"linux-binary-7.3.4+deb13-amd64 (= 7.3.4-1), linux-modules-7.3.4+deb13-amd64 (= 7.3.4-1), linux-base (>= 4)"}
	want := []string{"linux-image-7.3.4+deb13-amd64", "linux-base-7.3.4+deb13-amd64", "linux-binary-7.3.4+deb13-amd64",
		"linux-modules-7.3.4+deb13-amd64"}
	if diff := cmp.Diff(want, p.parts()); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}
