package kimage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseModInfo(t *testing.T) {
	got, err := parseModInfo(fakeModule("8021q", "6.18.15", "garp", "net-failover"))
	if err != nil {
		t.Fatal(err)
	}
	want := modInfo{name: "8021q", depends: []string{"garp", "net_failover"}, vermagic: "6.18.15 SMP mod_unload"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(modInfo{})); diff != "" {
		t.Errorf("parseModInfo (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "\x7fELF", "\xfd7zXZ\x00", strings.Repeat("x", 1000)} {
		if info, err := parseModInfo([]byte(bad)); err == nil {
			t.Errorf("parseModInfo(%.10q) = %+v; want an error", bad, info)
		}
	}
}

func TestLoadOrder(t *testing.T) {
	modules := map[string][]byte{
		"veth": fakeModule("veth", "1", "b"), "b": fakeModule("b", "1", "c"), "c": fakeModule("c", "1"),
		"dummy": fakeModule("dummy", "1", "c"), "unused": fakeModule("unused", "1"),
		"x": fakeModule("x", "1", "y"), "y": fakeModule("y", "1", "x"), "lost": fakeModule("lost", "1", "gone"),
	}
	order, err := loadOrder(modules, []string{"builtin", "dummy", "veth"})
	if diff := cmp.Diff([]string{"c", "dummy", "b", "veth"}, order); err != nil || diff != "" {
		t.Errorf("loadOrder: %v (-want +got):\n%s", err, diff)
	}
	for wanted, want := range map[string]string{"x": "depends on itself", "lost": "module lost needs gone"} {
		if _, err := loadOrder(modules, []string{wanted}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loadOrder(%s) = %v; want %q", wanted, err, want)
		}
	}
}

// Each layout and compression gives the same kernel; a dependency that no list foresees is found.
func TestOpenDebs(t *testing.T) {
	const uname = "6.18.15+deb13-amd64"
	for _, ext := range []string{"", ".gz", ".xz", ".zst"} {
		for _, prefix := range []string{"./lib/modules/", "./usr/lib/modules/"} {
			t.Run(ext+prefix, func(t *testing.T) {
				dir := t.TempDir()
				files := append(fakeModules(t, prefix+uname, uname, ext),
					debFileSpec{prefix + uname + "/config", []byte(fakeConfig)},
					debFileSpec{prefix + uname + "/vmlinuz", fakeBzImage(uname, nil)})
				fakeDeb(t, filepath.Join(dir, "a.deb"), ext, files...)
				p, err := openDebs(t.Context(), []string{filepath.Join(dir, "a.deb")}, filepath.Join(dir, "image"), wantedModules())
				if err != nil {
					t.Fatal(err)
				}
				order, err := loadOrder(p.modules, wantedModules())
				if diff := cmp.Diff(wantOrder(), order); err != nil || diff != "" {
					t.Errorf("modules: %v (-want +got):\n%s", err, diff)
				}
				image, err := os.ReadFile(p.image)
				if err != nil || string(image) != string(fakeBzImage(uname, nil)) || p.release != uname || string(p.config) != fakeConfig {
					t.Errorf("image of %d bytes (%v), release %q, config of %d bytes", len(image), err, p.release, len(p.config))
				}
			})
		}
	}
}

func TestOpenDebsErrors(t *testing.T) {
	const uname = "6.18-amd64"
	tests := []struct {
		name  string
		files []debFileSpec
		want  string
	}{
		{"no image", []debFileSpec{{"./boot/config-" + uname, nil}}, "no kernel image in"},
		{"two images", []debFileSpec{{"./boot/vmlinuz-1", nil}, {"./boot/vmlinuz-2", nil}}, "a second kernel image"},
		{"a broken module", []debFileSpec{{"./boot/vmlinuz-1", nil}, {"./lib/modules/1/veth.ko", []byte("x")}}, "module veth: not a kernel module"},
		{"a broken compression", []debFileSpec{{"./lib/modules/1/veth.ko.xz", []byte("x")}}, "veth.ko.xz"},
		{"a huge config", []debFileSpec{{"./boot/config-1", make([]byte, maxConfig+1)}}, "larger than 4 MiB"},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		name := filepath.Join(dir, "a.deb")
		fakeDeb(t, name, ".gz", tt.files...)
		_, err := openDebs(t.Context(), []string{name}, filepath.Join(dir, "image"), wantedModules())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: openDebs = %v; want %q", tt.name, err, tt.want)
		}
	}
}

// Names and sizes that come out of a module stay within what went in.
func FuzzParseModInfo(f *testing.F) {
	f.Add(fakeModule("veth", "6.18", "a", "b"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, module []byte) {
		info, err := parseModInfo(module)
		if err != nil {
			return
		}
		for _, d := range info.depends {
			if d == "" || strings.ContainsAny(d, ",\x00-") {
				t.Errorf("depends on %q", d)
			}
		}
	})
}

// A package may be anything: no panic, no endless loop, and no file beside the image.
func FuzzOpenDeb(f *testing.F) {
	dir := f.TempDir()
	for i, ext := range []string{"", ".gz", ".xz", ".zst"} {
		name := filepath.Join(dir, fmt.Sprint(i))
		fakeDeb(f, name, ext, debFileSpec{"./boot/vmlinuz-1", fakeBzImage("1", nil)}, debFileSpec{"./lib/modules/1/veth.ko", fakeModule("veth", "1")})
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		name := filepath.Join(dir, "deb")
		writeFile(t, name, data)
		p, err := openDebs(context.Background(), []string{name}, filepath.Join(dir, "image"), wantedModules())
		if err == nil && p.image != filepath.Join(dir, "image") {
			t.Errorf("the image is %s", p.image)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 2 {
			t.Errorf("files: %v, %v", left, err)
		}
	})
}
