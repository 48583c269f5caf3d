package kimage

import (
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz/lzma"
	"github.com/xi2/xz"
)

// A magic marks the beginning of compressed data.
type magic struct {
	name  string // as zboot and the kernel's Kconfig spell it
	magic []byte
}

// magics lists how kernels are compressed, by how the data begins. Plain lzma has only its usual
// parameters for a mark, hence last.
func magics() []magic {
	return []magic{
		{"gzip", []byte{0x1f, 0x8b, 8}},
		{"xz", []byte{0xfd, '7', 'z', 'X', 'Z', 0}},
		{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}},
		{"lz4", []byte{0x02, 0x21, 0x4c, 0x18}}, // the legacy frame, which is what the kernel uses
		{"bzip2", []byte{'B', 'Z', 'h', '9'}},
		{"lzma", []byte{0x5d, 0, 0, 0}},
	}
}

// maxWindow bounds what a decompressor keeps of the past: xz and zstd at their highest levels, which
// the kernel uses, ask for 128 MiB at most.
const maxWindow = 128 << 20

// decompressor reads data that is compressed in the named way. It does not complain about what
// follows the data, as a kernel's length field does.
func decompressor(name string, r io.Reader) (io.ReadCloser, error) {
	switch name {
	case "gzip", "gz":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		z.Multistream(false)
		return z, nil
	case "xz", "xzkern":
		// Not ulikunitz/xz, which doesn't know the branch filters that kernels are packed with.
		z, err := xz.NewReader(r, maxWindow)
		if err != nil {
			return nil, err
		}
		z.Multistream(false)
		return io.NopCloser(z), nil
	case "zstd", "zstd22":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxImage))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case "lz4":
		return io.NopCloser(lz4.NewReader(r)), nil
	case "bzip2":
		return io.NopCloser(bzip2.NewReader(r)), nil
	case "lzma":
		z, err := lzma.ReaderConfig{DictCap: maxWindow}.NewReader(r) // refuses headers that ask for more
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	}
	return nil, fmt.Errorf("compressed with %q, which isn't known here", name)
}
