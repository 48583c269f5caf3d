package kimage

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz/lzma"
)

const fakeBanner = "Linux version 6.18.15 (build@host) (gcc 14) #7 SMP PREEMPT_DYNAMIC Mon Nov 30 2026\n"

// fakeKernel is a decompressed kernel: noise, a format string that looks like a banner, the banner,
// and a built-in configuration if config isn't empty. It is longer than a window of the scan.
func fakeKernel(t testing.TB, config string) []byte {
	t.Helper()
	noise := bytes.Repeat([]byte("\x00\x01noise IKCFG_S Linux versio\xff"), 20000)
	b := append([]byte{}, noise...)
	b = append(b, "Linux version %s (%s)\x00"...)
	if config != "" {
		b = append(b, ikconfigStart...)
		b = append(b, compress(t, ".gz", []byte(config))...)
		b = append(b, "IKCFG_ED"...)
	}
	b = append(b, fakeBanner...)
	return append(b, noise...)
}

// pack compresses like the kernel's build.
func pack(t testing.TB, compression string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch compression {
	case "gzip":
		return compress(t, ".gz", data)
	case "xz":
		return compress(t, ".xz", data)
	case "zstd":
		return compress(t, ".zst", data)
	case "lz4":
		z := lz4.NewWriter(&b)
		err = z.Apply(lz4.LegacyOption(true))
		w = z
	case "lzma":
		w, err = lzma.WriterConfig{DictCap: 1 << 24}.NewWriter(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fakeZboot is an EFI image around a compressed one.
func fakeZboot(payload []byte, compression string) []byte {
	b := make([]byte, 0x100)
	le := binary.LittleEndian
	copy(b, "MZ\x00\x00zimg")
	le.PutUint32(b[8:], 0x100)
	le.PutUint32(b[12:], uint32(len(payload)))
	copy(b[24:], compression)
	le.PutUint32(b[0x3c:], 0x80)
	copy(b[0x80:], "PE\x00\x00\x64\xaa")
	return append(b, payload...)
}

// fakeImage is a plain arm64 kernel.
func fakeImage(content []byte) []byte {
	b := make([]byte, 0x400)
	copy(b, "MZ")
	copy(b[0x38:], "ARM\x64")
	return append(b, content...)
}

// fakeZImage is a 32-bit arm kernel: a decompressor, then the kernel.
func fakeZImage(payload []byte) []byte {
	b := make([]byte, 0x1000)
	binary.LittleEndian.PutUint32(b[0x24:], 0x016f2818)
	copy(b[0x800:], "\xfd7zXZ\x00 is what a decompressor looks for")
	return append(b, payload...)
}

func TestIdentify(t *testing.T) {
	tests := []struct {
		name         string
		data         []byte
		format       format
		arch, banner string
	}{
		{"bzImage", fakeBzImage("6.18.15 (b@h) #1 SMP", []byte("p")), formatBzImage, "amd64", "6.18.15 (b@h) #1 SMP"},
		{"arm64", fakeImage(nil), formatImage, "arm64", ""},
		{"zImage", fakeZImage(nil), formatZImage, "armhf", ""},
		{"zboot", fakeZboot(nil, "gzip"), formatZboot, "arm64", ""},
		{"Image.gz", pack(t, "gzip", fakeImage(fakeKernel(t, ""))), formatPacked, "arm64", ""},
		{"text", []byte(strings.Repeat("text", 1000)), "", "", ""},
		{"short", []byte("MZ"), "", "", ""},
		{"empty", nil, "", "", ""},
		{"text.gz", pack(t, "gzip", bytes.Repeat([]byte("text"), 1000)), "", "", ""},
		{"module", fakeModule("veth", "1"), "", "", ""},
	}
	for _, tt := range tests {
		h, err := identify(bytes.NewReader(tt.data), int64(len(tt.data)))
		if tt.format == "" {
			if !errors.Is(err, errNoKernel) {
				t.Errorf("identify(%s) = %+v, %v; want %v", tt.name, h, err, errNoKernel)
			}
			continue
		}
		if err != nil || h.format != tt.format || h.arch != tt.arch || h.banner != tt.banner {
			t.Errorf("identify(%s) = %+v, %v; want %s for %s, banner %q", tt.name, h, err, tt.format, tt.arch, tt.banner)
		}
	}
}

func TestScanImage(t *testing.T) {
	for _, config := range []string{"", fakeConfig} {
		kernel := fakeKernel(t, config)
		images := map[string][]byte{"in the image": fakeImage(kernel)}
		for _, c := range []string{"gzip", "xz", "zstd", "lz4", "lzma"} {
			// A length follows the payload in the kernel's own build; the arm image doesn't say where it is.
			images["in its "+c+" payload"] = fakeBzImage("6.18.15", append(pack(t, c, kernel), 1, 2, 3, 4))
		}
		images["in its gzip payload"] = fakeZImage(pack(t, "gzip", kernel))
		for where, data := range images {
			h, err := identify(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := scanImage(t.Context(), bytes.NewReader(data), int64(len(data)), h, true)
			if err != nil || got.banner != strings.TrimSpace(fakeBanner) || string(got.config) != config || got.where != where {
				t.Errorf("scanImage(%s %s) = banner %q, %d bytes of config (want %d), %q, %v",
					h.format, where, got.banner, len(got.config), len(config), got.where, err)
			}
		}
	}
	damaged := fakeBzImage("6.18.15", pack(t, "gzip", fakeKernel(t, ""))[:100])
	h, err := identify(bytes.NewReader(damaged), int64(len(damaged)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := scanImage(t.Context(), bytes.NewReader(damaged), int64(len(damaged)), h, true); err != nil || got.banner != "" {
		t.Errorf("scanImage of a cut image = %+v, %v; want nothing found", got, err)
	}
}

func TestFetchFiles(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "store"), root: dir}
	image := filepath.Join(dir, "bzImage")
	writeFile(t, image, fakeBzImage("6.18.15 (b@h) #1 SMP PREEMPT_DYNAMIC", nil))
	modules := filepath.Join(dir, "lib/modules/6.18.15")
	for i, f := range fakeModules(t, modules, "6.18.15", ".zst") {
		if i%2 == 0 {
			f.name, f.data = strings.TrimSuffix(f.name, ".zst")+".gz", compress(t, ".gz", fakeModules(t, "", "6.18.15", "")[i].data)
		}
		writeFile(t, f.name, f.data)
	}

	img := fetch(t, s, "file:"+image)
	if img.Path != image || img.Release != "6.18.15" || img.Arch != "amd64" || img.Modules != nil {
		t.Errorf("Fetch(file:) = %+v; want the file as it is", img)
	}
	img = fetch(t, s, "file:"+image+",modules="+modules)
	if got := strings.Join(moduleNames(img), " "); got != strings.Join(wantOrder(), " ") || img.Release != "6.18.15" {
		t.Errorf("Fetch(file:,modules=) = %+v", img)
	}
	if again := fetch(t, s, "file:"+image+",modules="+modules); again.Path != img.Path {
		t.Errorf("the second fetch is in %s, the first in %s", again.Path, img.Path)
	}

	other := filepath.Join(dir, "other")
	writeFile(t, other, fakeBzImage("6.18.16 (b@h) #1 SMP", nil))
	_, err := s.Fetch(t.Context(), mustParse(t, "file:"+other+",modules="+modules))
	var wrong *SpecError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "was built for 6.18.15") {
		t.Errorf("Fetch with another kernel's modules = %v", err)
	}

	writeFile(t, filepath.Join(dir, "proc/sys/kernel/osrelease"), []byte("6.18.15\n"))
	if _, err := s.Fetch(t.Context(), mustParse(t, "host")); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "/boot/vmlinuz-6.18.15") {
		t.Errorf("Fetch(host) without an image = %v", err)
	}
	writeFile(t, filepath.Join(dir, "boot/vmlinuz-6.18.15"), fakeBzImage("6.18.15 (b@h) #1 SMP", nil))
	writeFile(t, filepath.Join(dir, "proc/config.gz"), compress(t, ".gz", []byte(fakeConfig)))
	img = fetch(t, s, "host")
	if len(img.Modules) != len(wantOrder()) || len(img.Config) == 0 || !strings.HasSuffix(img.ConfigFrom, "proc/config.gz") {
		t.Errorf("Fetch(host) = %+v", img)
	}
}

// An EFI zboot image is unwrapped: QEMU needs the plain one.
func TestFetchZboot(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "store")}
	plain := fakeImage(fakeKernel(t, fakeConfig))
	writeFile(t, filepath.Join(dir, "vmlinuz"), fakeZboot(pack(t, "gzip", plain), "gzip"))
	img := fetch(t, s, "file:"+filepath.Join(dir, "vmlinuz"))
	got, err := os.ReadFile(img.Path)
	if err != nil || !bytes.Equal(got, plain) || img.Arch != "arm64" || img.Release != "6.18.15" {
		t.Errorf("Fetch = %+v with %d bytes, %v; want the %d plain ones", img, len(got), err, len(plain))
	}
}

// Any bytes: no panic, and what is said to lie in the file does.
func FuzzImage(f *testing.F) {
	kernel := []byte("IKCFG_ST" + fakeBanner)
	for _, c := range []string{"gzip", "xz", "zstd", "lz4", "lzma"} {
		f.Add(fakeBzImage("6.18", pack(f, c, kernel)))
		f.Add(fakeZboot(pack(f, c, kernel), c))
	}
	f.Add(fakeZImage(pack(f, "gzip", kernel)))
	f.Add(fakeImage(kernel))
	f.Add(pack(f, "gzip", fakeImage(kernel)))
	f.Add(fakeModule("x", "1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(len(data))
		h, err := identify(bytes.NewReader(data), size)
		if err != nil {
			return
		}
		if h.payloadAt < 0 || h.payloadLen < 0 || h.payloadAt+h.payloadLen > size {
			t.Errorf("payload at %d, %d long, in %d bytes", h.payloadAt, h.payloadLen, size)
		}
		got, err := scanImage(context.Background(), bytes.NewReader(data), size, h, true)
		if err != nil {
			t.Errorf("scanImage: %v", err)
		}
		if got.banner != "" && !strings.HasPrefix(got.banner, bannerStart) {
			t.Errorf("banner %q", got.banner)
		}
	})
}

// The configuration comes out of a gzip stream that is cut off after it, whatever follows.
func FuzzIkconfig(f *testing.F) {
	f.Add(compress(f, ".gz", []byte(fakeConfig)), []byte("IKCFG_ED"))
	f.Fuzz(func(t *testing.T, packed, after []byte) {
		config := ikconfig(io.MultiReader(bytes.NewReader(packed), bytes.NewReader(after)))
		if config == nil {
			return
		}
		if len(config) > maxConfig || !bytes.Contains(config, []byte("CONFIG_")) {
			t.Errorf("%d bytes of config", len(config))
		}
		z, err := gzip.NewReader(bytes.NewReader(append(packed, after...)))
		if err != nil {
			t.Errorf("config out of no gzip stream: %v", err)
			return
		}
		_ = z.Close() // only the header mattered
	})
}
