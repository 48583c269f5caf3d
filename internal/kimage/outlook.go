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

// Outlook says what Build(ctx, spec, b) would have to do, for each b of builds. It looks the source up once, reading all
// files of a tree that may have changed, but builds nothing and downloads no source. Its error is one that Build would
// return, for one of a tool that is missing before anything is done.
func (s Store) Outlook(ctx context.Context, spec Spec, builds ...Build) ([]Outlook, error) {
	var src source
	find := func(ctx context.Context, spec Spec) (_ source, err error) {
		if src.digest == "" {
			src, err = s.source(ctx, spec)
		}
		return src, err
	}
	var list []Outlook
	for _, b := range builds {
		j, err := s.job(ctx, spec, b, find)
		if err != nil {
			return nil, err
		}
		o := Outlook{Again: j.again(), Objects: j.obj}
		_, err = os.Stat(filepath.Join(j.Dir, "images", j.key(), "manifest.json"))
		o.Cached = err == nil
		if !o.Cached {
			if err := needTools(ctx, j.spec, j.prefix); err != nil {
				return nil, err
			}
		}
		list = append(list, o)
	}
	return list, nil
}
