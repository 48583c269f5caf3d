package kimage

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// A scan is what was found in the bytes of a kernel.
type scan struct {
	banner string // "Linux version 6.12.117 (…) … #1 SMP PREEMPT_DYNAMIC …"
	config []byte // the decompressed IKCONFIG, if it is built in (CONFIG_IKCONFIG=y)
	where  string // how the kernel was reached: "in the image", "in its gzip payload"
}

// The marks around a built-in configuration (kernel/configs.c), and the one before the banner.
const (
	ikconfigStart = "IKCFG_ST"
	bannerStart   = "Linux version "
)

// maxTries bounds how many places that look compressed are tried in an image that doesn't say where
// its kernel is.
const maxTries = 64

// scanFile looks for the banner in a kernel image and, with config, for the built-in configuration.
func scanFile(ctx context.Context, name string, config bool) (scan, error) {
	f, err := os.Open(name)
	if err != nil {
		return scan{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return scan{}, err
	}
	h, err := identify(f, info.Size())
	if err != nil {
		return scan{}, err
	}
	return scanImage(ctx, f, info.Size(), h, config)
}

// scanImage tries the image as it is, then the payload where the format says, then every place that
// begins like compressed data. The first that has a banner is the kernel.
func scanImage(ctx context.Context, r io.ReaderAt, size int64, h head, config bool) (scan, error) {
	if h.format == formatImage || h.format == formatELF {
		found, err := scanStream(ctx, io.NewSectionReader(r, 0, size), config)
		found.where = "in the image"
		return found, err
	}
	places := []place{}
	if h.payloadLen > 0 {
		places = placesIn(r, h.payloadAt, 1)
	}
	if len(places) == 0 {
		var err error
		if places, err = findPlaces(ctx, r, size); err != nil {
			return scan{}, err
		}
	}
	for _, p := range places {
		z, err := decompressor(p.compression, io.NewSectionReader(r, p.at, size-p.at))
		if err != nil {
			continue
		}
		found, err := scanStream(ctx, z, config)
		_ = z.Close() // it only reads
		if err != nil {
			return scan{}, err
		}
		if found.banner != "" {
			found.where = "in its " + p.compression + " payload"
			return found, nil
		}
	}
	return scan{}, nil
}

// A place is where compressed data seems to begin.
type place struct {
	at          int64
	compression string
}

// placesIn returns what the bytes at offset at look like.
func placesIn(r io.ReaderAt, at int64, most int) []place {
	var b [8]byte
	n, _ := r.ReadAt(b[:], at) // a short read matches nothing
	var places []place
	for _, m := range magics() {
		if bytes.HasPrefix(b[:n], m.magic) && len(places) < most {
			places = append(places, place{at, m.name})
		}
	}
	return places
}

// findPlaces looks for the magics in the whole file, at most maxTries of them.
func findPlaces(ctx context.Context, r io.ReaderAt, size int64) ([]place, error) {
	const overlap = 8
	buf := make([]byte, 1<<16)
	var places []place
	for base := int64(0); base < size && len(places) < maxTries; base += int64(len(buf) - overlap) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n, err := r.ReadAt(buf, base)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		places = append(places, magicsIn(buf[:n], base, len(buf)-overlap)...)
	}
	return places[:min(len(places), maxTries)], nil
}

// magicsIn returns the places in b that begin before end, in order.
func magicsIn(b []byte, base int64, end int) []place {
	var places []place
	marks := magics()
	for i := 0; i < min(len(b), end); i++ {
		for _, m := range marks {
			if b[i] == m.magic[0] && bytes.HasPrefix(b[i:], m.magic) {
				places = append(places, place{base + int64(i), m.name})
				break
			}
		}
	}
	return places
}

// scanStream goes through a decompressed kernel, keeping only a window of it. Damaged data ends the
// search where it is; what was found before counts.
func scanStream(ctx context.Context, r io.Reader, config bool) (scan, error) {
	var found scan
	const keep = 512 // longer than a banner
	buf := make([]byte, 0, 1<<18)
	for total := 0; total < maxImage && (found.banner == "" || config && found.config == nil); {
		if ctx.Err() != nil {
			return scan{}, ctx.Err()
		}
		if len(buf) > keep {
			buf = append(buf[:0], buf[len(buf)-keep:]...)
		}
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		total += n
		if found.banner == "" {
			found.banner = bannerIn(buf, err != nil)
		}
		if i := bytes.Index(buf, []byte(ikconfigStart)); i >= 0 && config && found.config == nil {
			rest := io.MultiReader(bytes.NewReader(buf[i+len(ikconfigStart):]), r)
			tail := &tailReader{r: rest}
			if found.config = ikconfig(tail); found.config != nil {
				buf = append(buf[:0], tail.last...)
				continue
			}
			return found, nil // what the failed try has read is gone
		}
		if err != nil {
			return found, nil // the end, or damage
		}
	}
	return found, nil
}

// A tailReader remembers the last bytes that went through it, so that a banner that follows the
// configuration isn't lost in the decompressor's buffer.
type tailReader struct {
	r    io.Reader
	last []byte
}

func (t *tailReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.last = append(t.last, p[:n]...)
	if len(t.last) > 1<<16 {
		t.last = t.last[len(t.last)-1<<16:]
	}
	return n, err
}

// ikconfig decompresses a built-in configuration; nil if it isn't one.
func ikconfig(r io.Reader) []byte {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil
	}
	z.Multistream(false)
	text, err := readLimited(z, maxConfig)
	if err != nil || !bytes.Contains(text, []byte("CONFIG_")) {
		return nil
	}
	return text
}

// bannerIn finds the version banner in a piece of a kernel. The format string that the kernel has
// beside it, and a banner cut by the end of the piece (unless it is the last), don't count.
func bannerIn(b []byte, last bool) string {
	for {
		i := bytes.Index(b, []byte(bannerStart))
		if i < 0 {
			return ""
		}
		b = b[i:]
		end := bytes.IndexAny(b[:min(len(b), 512)], "\n\x00")
		if end < 0 && !last {
			return ""
		}
		if end < 0 {
			end = min(len(b), 512)
		}
		text := printable(b[:end])
		if len(text) > len(bannerStart) && text[len(bannerStart)] >= '0' && text[len(bannerStart)] <= '9' {
			return text
		}
		b = b[len(bannerStart):]
	}
}

// releaseOf returns the release of a kernel image, empty if it can't be found.
func releaseOf(ctx context.Context, name string) (string, error) {
	h, err := identifyFile(name)
	if err != nil {
		return "", err
	}
	if release, _, _ := strings.Cut(h.banner, " "); release != "" {
		return release, nil
	}
	found, err := scanFile(ctx, name, false)
	if err != nil {
		return "", err
	}
	release, _, _ := strings.Cut(strings.TrimPrefix(found.banner, bannerStart), " ")
	return release, nil
}
