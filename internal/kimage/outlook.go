package kimage

import (
	"context"
	"os"
	"path/filepath"
)

// An Outlook is what Build would have to do.
type Outlook struct {
	Cached bool // nothing: the cache has the kernel
	// Again: a whole build with the same configuration left its objects, so that only some are made.
	Again bool
	// Objects is where the objects are or will be: builds that have it in common differ in patches alone.
	Objects string
}

// Outlook says what Build(ctx, spec, b) would have to do. It looks the source up, and reads a tree's files, but builds
// nothing and downloads no source. Its error is one that Build would return, for one of a tool that is missing before
// anything is done.
func (s Store) Outlook(ctx context.Context, spec Spec, b Build) (Outlook, error) {
	j, err := s.job(ctx, spec, b)
	if err != nil {
		return Outlook{}, err
	}
	o := Outlook{Again: j.again(), Objects: j.obj}
	if _, err := os.Stat(filepath.Join(j.Dir, "images", j.key(), "manifest.json")); err == nil {
		o.Cached = true
		return o, nil
	}
	return o, needTools(ctx, j.spec, j.prefix)
}
