package kimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A format is a container of a kernel image.
type format string

const (
	formatBzImage format = "bzImage"    // x86 boot protocol
	formatZImage  format = "zImage"     // 32-bit arm, self-extracting
	formatImage   format = "Image"      // arm64 and riscv, plain
	formatZboot   format = "EFI zboot"  // a PE file around a compressed Image, since 6.1
	formatELF     format = "vmlinux"    // ELF
	formatPacked  format = "compressed" // a compressed file, such as Image.gz
)

// A head is what an image's first bytes say.
type head struct {
	format format
	arch   string // Debian's name; empty when the format doesn't say
	// The compressed kernel within the file, where the format says where it is.
	payloadAt, payloadLen int64
	compression           string // zboot's name for it
	banner                string // bzImage: "6.12.117 (build@host) #1 SMP …"
}

// errNoKernel says that a file is no kernel image.
var errNoKernel = errors.New("not a kernel image (no bzImage, zImage, Image, EFI zboot or vmlinux)")

// identifyFile looks at the first bytes of a file.
func identifyFile(name string) (head, error) {
	f, err := os.Open(name)
	if err != nil {
		return head{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	if !info.Mode().IsRegular() {
		return head{}, errNoKernel
	}
	return identify(f, info.Size())
}

// identify tells a kernel image from anything else. Whatever the bytes are, what it returns lies
// within size.
func identify(r io.ReaderAt, size int64) (head, error) {
	var b [0x290]byte
	n, err := r.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return head{}, err
	}
	if n < 0x40 {
		return head{}, errNoKernel
	}
	le := binary.LittleEndian
	switch {
	// Documentation/arch/x86/boot.rst: the header's magic, from protocol 2.00.
	case string(b[0x202:0x206]) == "HdrS":
		return bzImage(r, size, b[:]), nil
	// drivers/firmware/efi/libstub/zboot-header.S
	case string(b[:2]) == "MZ" && string(b[4:8]) == "zimg":
		h := head{format: formatZboot, payloadAt: int64(le.Uint32(b[8:])), payloadLen: int64(le.Uint32(b[12:]))}
		h.compression = string(bytes.TrimRight(b[24:32], "\x00"))
		h.arch = peArch(le.Uint32(b[0x3c:]), r)
		h.clamp(size)
		return h, nil
	// Documentation/arch/arm64/booting.rst
	case string(b[0x38:0x3c]) == "ARM\x64":
		return head{format: formatImage, arch: "arm64"}, nil
	// Documentation/arch/riscv/boot-image-header.rst
	case string(b[0x38:0x3c]) == "RSC\x05":
		return head{format: formatImage, arch: "riscv64"}, nil
	// arch/arm/boot/compressed/head.S
	case le.Uint32(b[0x24:]) == 0x016f2818:
		return head{format: formatZImage, arch: "armhf"}, nil
	case string(b[:4]) == elf.ELFMAG:
		return elfHead(r)
	}
	for _, m := range magics() {
		if bytes.HasPrefix(b[:], m.magic) && m.name != "lzma" {
			return packedHead(r, size, m.name)
		}
	}
	return head{}, errNoKernel
}

// clamp keeps the payload within the file.
func (h *head) clamp(size int64) {
	if h.payloadAt < 0 || h.payloadAt > size {
		h.payloadAt, h.payloadLen = 0, 0
	}
	h.payloadLen = max(0, min(h.payloadLen, size-h.payloadAt))
}

// bzImage reads the x86 setup header: where the kernel is compressed, and the version string.
func bzImage(r io.ReaderAt, size int64, b []byte) head {
	le := binary.LittleEndian
	h := head{format: formatBzImage, arch: "i386"}
	protocol := le.Uint16(b[0x206:])
	if protocol >= 0x20c && le.Uint16(b[0x236:])&1 != 0 { // XLF_KERNEL_64
		h.arch = "amd64"
	}
	if protocol >= 0x208 {
		setup := int64(b[0x1f1])
		if setup == 0 {
			setup = 4
		}
		h.payloadAt = (setup+1)*512 + int64(le.Uint32(b[0x248:]))
		h.payloadLen = int64(le.Uint32(b[0x24c:]))
		h.clamp(size)
	}
	if at := int64(le.Uint16(b[0x20e:])); at != 0 {
		var text [256]byte
		n, _ := r.ReadAt(text[:], at+0x200) // a short read leaves a short text
		if end := bytes.IndexByte(text[:n], 0); end > 0 {
			h.banner = printable(text[:end])
		}
	}
	return h
}

// printable returns b if it is plain text.
func printable(b []byte) string {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return string(b)
}

// peArch reads the machine of a PE file whose header is at offset at.
func peArch(at uint32, r io.ReaderAt) string {
	var b [6]byte
	if _, err := r.ReadAt(b[:], int64(at)); err != nil || string(b[:4]) != "PE\x00\x00" {
		return ""
	}
	switch binary.LittleEndian.Uint16(b[4:]) { // Microsoft's PE format, "Machine Types"
	case 0x8664:
		return "amd64"
	case 0xaa64:
		return "arm64"
	case 0x5064:
		return "riscv64"
	case 0x6264:
		return "loong64"
	}
	return ""
}

// elfHead tells a vmlinux from any other ELF file: it is no program that needs an interpreter, no
// library and no module.
func elfHead(r io.ReaderAt) (head, error) {
	f, err := elf.NewFile(r)
	if err != nil || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN || f.Section(".interp") != nil || f.Section(".dynsym") != nil {
		return head{}, errNoKernel
	}
	h := head{format: formatELF}
	switch f.Machine {
	case elf.EM_X86_64:
		h.arch = "amd64"
	case elf.EM_386:
		h.arch = "i386"
	case elf.EM_AARCH64:
		h.arch = "arm64"
	case elf.EM_ARM:
		h.arch = "armhf"
	case elf.EM_RISCV:
		h.arch = "riscv64"
	case elf.EM_PPC64:
		h.arch = "ppc64el"
	case elf.EM_MIPS:
		h.arch = "mips64el"
	}
	return h, nil
}

// packedHead looks into a compressed file: a kernel such as Image.gz, or something else.
func packedHead(r io.ReaderAt, size int64, compression string) (head, error) {
	inner, err := decompressor(compression, io.NewSectionReader(r, 0, size))
	if err != nil {
		return head{}, errNoKernel
	}
	defer inner.Close()
	var b [0x290]byte
	if n, _ := io.ReadFull(inner, b[:]); n < len(b) {
		return head{}, errNoKernel
	}
	h := head{format: formatPacked, payloadLen: size, compression: compression}
	if plain, err := identify(bytes.NewReader(b[:]), int64(len(b))); err == nil && plain.format == formatImage {
		h.arch = plain.arch
		return h, nil
	}
	return head{}, errNoKernel
}

// unwrapZboot replaces an EFI zboot image by the plain one in it: QEMU's -kernel before 8.2 doesn't
// know zboot, and no version needs it.
func unwrapZboot(name string, h head) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	inner, err := decompressor(h.compression, io.NewSectionReader(f, h.payloadAt, h.payloadLen))
	if err != nil {
		return fmt.Errorf("unpack the EFI image: %w", err)
	}
	defer inner.Close()
	if err := writeLimited(name+".plain", inner, maxImage); err != nil {
		return fmt.Errorf("unpack the EFI image: %w", err)
	}
	return os.Rename(name+".plain", name)
}
