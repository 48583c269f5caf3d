package kimage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"

	"pault.ag/go/debian/deb"
)

// Limits on what is taken out of a package: no kernel's files come near them, and a broken or
// hostile archive can't fill the memory or the disk.
const (
	maxImage  = 512 << 20
	maxConfig = 4 << 20
	maxModule = 64 << 20
)

// A parcel is what was found of a kernel, wherever it came from.
type parcel struct {
	release    string
	config     []byte
	configFrom string
	image      string            // file that holds the kernel image
	imageFrom  string            // the name that it had
	modules    map[string][]byte // decompressed, by name with underscores
}

// debFile matches the files of interest in both of Debian's layouts, with the kernel's release.
var debFile = regexp.MustCompile(`^\.?/?(?:boot/(vmlinu[xz]|config)-([^/]+)|(?:usr/)?lib/modules/([^/]+)/(?:(vmlinu[xz]|config)|(?:.*/)?([^/]+)\.ko(\.xz|\.zst|\.gz)?))$`)

// What can be wrong with packages that somebody chose.
var (
	errNoDeb   = errors.New("not a Debian package")
	errNoImage = errors.New("no kernel image")
)

// openDebs takes a kernel out of packages: the image goes into the file image, the rest into memory.
// Modules are those that wanted names and what they depend on.
func openDebs(ctx context.Context, debs []string, image string, wanted []string) (*parcel, error) {
	p := &parcel{modules: make(map[string][]byte)}
	take := make(map[string]bool)
	for _, name := range append(wanted, likelyDeps()...) {
		take[name] = true
	}
	for first := true; ; first = false {
		for _, name := range debs {
			if err := p.read(ctx, name, image, take, first); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
		}
		// What the likely dependencies missed costs another pass, but no memory for all the others.
		missing, err := missingDeps(p.modules)
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, name := range missing {
			fresh = fresh || !take[name]
			take[name] = true
		}
		if !fresh {
			break
		}
	}
	if p.image == "" {
		return nil, fmt.Errorf("%w in %s", errNoImage, strings.Join(debs, ", "))
	}
	return p, nil
}

// read goes through one package. The image and the config are taken in the first pass only.
func (p *parcel) read(ctx context.Context, name, image string, take map[string]bool, first bool) error {
	return eachFile(ctx, name, func(h *tar.Header, files io.Reader) error {
		if err := p.take(h, files, image, take, first); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		return nil
	})
}

// errEnough is what a function returns to eachFile that wants no more files.
var errEnough = errors.New("enough")

// eachFile passes the files of a package to take, one after another, until its first error.
func eachFile(ctx context.Context, deb string, take func(*tar.Header, io.Reader) error) error {
	f, err := os.Open(deb)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := debData(f)
	if err != nil {
		return err
	}
	files, closer, err := data.Tarfile()
	if err != nil {
		return err
	}
	defer closer.Close()
	for {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("its data: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err := take(h, files); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// debData returns the member of a package that holds its files.
func debData(f *os.File) (*deb.ArEntry, error) {
	ar, err := deb.LoadAr(f)
	if err != nil {
		return nil, errNoDeb
	}
	for {
		e, err := ar.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: no data.tar in it", errNoDeb)
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errNoDeb, err)
		case e.Size < 0:
			return nil, fmt.Errorf("%w: a member has a negative size", errNoDeb)
		case strings.HasPrefix(e.Name, "data.tar"):
			return e, nil
		}
	}
}

func (p *parcel) take(h *tar.Header, r io.Reader, image string, take map[string]bool, first bool) error {
	m := debFile.FindStringSubmatch(path.Clean(h.Name))
	if m == nil || h.Typeflag != tar.TypeReg {
		return nil
	}
	what, release := m[1]+m[4], m[2]+m[3]
	switch {
	case what == "config" && first:
		text, err := readLimited(r, maxConfig)
		if err != nil {
			return err
		}
		p.config, p.configFrom = text, "the package's "+path.Clean(h.Name)
	case strings.HasPrefix(what, "vmlinu") && first:
		if p.image != "" {
			return fmt.Errorf("a second kernel image, after %s", p.imageFrom)
		}
		if err := writeLimited(image, r, maxImage); err != nil {
			return err
		}
		p.image, p.imageFrom, p.release = image, path.Clean(h.Name), release
	case what == "":
		name := moduleName(m[5])
		if !take[name] || p.modules[name] != nil {
			return nil
		}
		data, err := decompressModule(r, m[6])
		if err != nil {
			return err
		}
		p.modules[name] = data
	}
	return nil
}

// readLimited reads all of r, or says that it is larger than any file of its kind.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return data, err
}

// writeLimited copies r into a new file name.
func writeLimited(name string, r io.Reader, limit int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, limit+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && n > limit {
		err = fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return err
}
