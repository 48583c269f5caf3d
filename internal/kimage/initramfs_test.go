package kimage

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

func TestWriteInitramfs(t *testing.T) {
	dir := t.TempDir()
	img := &Image{}
	for _, name := range []string{"virtio_mmio", "veth"} {
		m := Module{Name: name, Path: filepath.Join(dir, name)}
		writeFile(t, m.Path, []byte("module "+name))
		img.Modules = append(img.Modules, m)
	}
	write := func() []byte {
		var b bytes.Buffer
		if err := WriteInitramfs(&b, img, []byte("agent"), []byte(`{"index":1}`)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	archive := write()
	if !bytes.Equal(archive, write()) {
		t.Error("the same input gave other bytes")
	}
	if !bytes.HasPrefix(archive, []byte("070701")) || len(archive)%4 != 0 {
		t.Errorf("not newc: %.6q, %d bytes", archive, len(archive))
	}
	// Read by another library than the one that wrote it.
	r := cpio.NewReader(bytes.NewReader(archive))
	got := make(map[string]string)
	var order []string
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Mode.String() + " " + string(data)
		order = append(order, h.Name)
	}
	want := map[string]string{
		"init":                                "0100755 agent",
		"napistall/trial.json":                `0100644 {"index":1}`,
		"napistall/modules/00-virtio_mmio.ko": "0100644 module virtio_mmio",
		"napistall/modules/01-veth.ko":        "0100644 module veth",
		"dev/console":                         "020600 ",
		"proc":                                "040755 ", "sys": "040755 ", "dev": "040755 ", "tmp": "040755 ", "run": "040755 ",
		"napistall": "040755 ", "napistall/modules": "040755 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	seen := map[string]bool{".": true}
	for _, name := range order {
		if !seen[filepath.Dir(name)] {
			t.Errorf("%s comes before its directory", name)
		}
		seen[name] = true
	}
}

func TestAgent(t *testing.T) {
	_, err := Agent("nosuch")
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "without an agent for nosuch") {
		t.Errorf("Agent(nosuch) = %v; want ErrUnsupported that says how to build one", err)
	}
	for _, goarch := range []string{"amd64", "arm", "arm64"} { // what make build embeds
		data, err := Agent(goarch)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil || !bytes.HasPrefix(data, []byte("\x7fELF")) {
			t.Errorf("Agent(%s) = %d bytes, %v; want a program", goarch, len(data), err)
		}
	}
	// This test is linked with or without cgo; both answers are right, a wrong program isn't.
	if data, err := Agent(runtime.GOARCH); err == nil && !bytes.HasPrefix(data, []byte("\x7fELF")) {
		t.Errorf("Agent(%s) is no program", runtime.GOARCH)
	}
	if _, err := unpackAgent("x", []byte("no gzip")); err == nil {
		t.Error("unpackAgent of a damaged file succeeded")
	}
}
