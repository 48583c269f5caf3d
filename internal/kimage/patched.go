package kimage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed patches
var patchFiles embed.FS

// builtinPatch returns the forms of a patch that comes with napistall: patches/NAME-FORM.patch for
// NAME.patch. Kernels differ in what stands around the change, so one of them may apply.
func builtinPatch(name string) []string {
	all, _ := fs.Glob(patchFiles, "patches/"+strings.TrimSuffix(name, ".patch")+"-*.patch") // an odd name matches nothing
	return slices.DeleteFunc(all, func(string) bool { return !strings.HasSuffix(name, ".patch") || strings.ContainsAny(name, "*?[/\\") })
}

// builtinPatches lists the names that builtinPatch knows.
const builtinPatches = "yield-on-exit.patch"

// FindPatch returns where the patch called name is: a file, relative names starting from dir, else the
// same name if such a patch comes with napistall. Its error is a *SpecError.
func FindPatch(dir, name string) (string, error) {
	file, err := homed(name)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	info, err := os.Stat(file)
	switch {
	case err == nil && info.Mode().IsRegular():
		return filepath.Abs(file)
	case err == nil:
		return "", inputError{"patch", &SpecError{name, "want a patch, and it is no file"}}
	case len(builtinPatch(name)) > 0:
		return name, nil
	}
	return "", inputError{"patch", &SpecError{name, fmt.Sprintf("there is no such patch; %s comes with napistall", builtinPatches)}}
}

// A patch is one patch in the forms that it has.
type patch struct {
	name  string
	forms []patchForm
}

type patchForm struct {
	name   string
	digest string
	files  []filePatch
}

// readPatches reads the patches that are called names.
func readPatches(names []string) ([]patch, error) {
	var patches []patch
	for _, name := range names {
		found, err := FindPatch("", name)
		if err != nil {
			return nil, err
		}
		p := patch{name: filepath.Base(found)}
		forms, read := []string{found}, os.ReadFile
		if !filepath.IsAbs(found) {
			forms, read = builtinPatch(found), patchFiles.ReadFile
		}
		for _, form := range forms {
			text, err := read(form)
			if err != nil {
				return nil, fmt.Errorf("read patch %s: %w", name, err)
			}
			files, err := parsePatch(text)
			if err != nil {
				return nil, inputError{"patch", &SpecError{name, err.Error()}}
			}
			sum := sha256.Sum256(text)
			p.forms = append(p.forms, patchForm{filepath.Base(form), hex.EncodeToString(sum[:]), files})
		}
		patches = append(patches, p)
	}
	return patches, nil
}

// A content is what a file holds; nil where there is no file.
type content []byte

// errApplied says that a source has a patch already.
var errApplied = errors.New("it is there already: the source has all that the patch would make of it")

// apply changes the files of wanted, or takes them from pristine, as the first form does that fits. It is errApplied
// where none does because what one of them makes is there.
func (p patch) apply(wanted map[string]content, pristine func(string) (content, error)) (form string, err error) {
	var errs []error
	for _, f := range p.forms {
		changed, err := f.apply(wanted, pristine)
		if err == nil {
			for name, c := range changed {
				wanted[name] = c
			}
			return f.name, nil
		}
		if _, undoErr := f.undone().apply(wanted, pristine); undoErr == nil {
			return "", errApplied
		}
		errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
	}
	return "", errors.Join(errs...)
}

// undone is the form that takes f's changes back.
func (f patchForm) undone() patchForm {
	back := patchForm{name: f.name}
	for _, fp := range f.files {
		r := filePatch{from: fp.to, to: fp.from}
		moved := 0
		for _, h := range fp.hunks {
			r.hunks = append(r.hunks, hunk{at: h.at + moved, old: h.new, new: h.old})
			moved += len(h.new) - len(h.old)
		}
		back.files = append(back.files, r)
	}
	slices.Reverse(back.files) // a file may be changed more than once
	return back
}

func (f patchForm) apply(wanted map[string]content, pristine func(string) (content, error)) (map[string]content, error) {
	changed := make(map[string]content)
	for _, fp := range f.files {
		name := fp.from
		if name == "" {
			name = fp.to
		}
		old, ok := changed[name]
		if !ok {
			old, ok = wanted[name]
		}
		if !ok {
			var err error
			if old, err = pristine(name); err != nil {
				return nil, err
			}
		}
		switch {
		case fp.from == "" && old != nil:
			return nil, fmt.Errorf("%s: the patch makes this file, and it is there", name)
		case fp.from != "" && old == nil:
			return nil, fmt.Errorf("%s: there is no such file", name)
		}
		lines, err := applyHunks(splitLines(old), fp.hunks)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		changed[name] = content(strings.Join(lines, ""))
		if fp.to == "" {
			if len(lines) > 0 {
				return nil, fmt.Errorf("%s: the patch takes this file away, and more is in it than the patch says", name)
			}
			changed[name] = nil
		} else if changed[name] == nil {
			changed[name] = content{}
		}
	}
	return changed, nil
}

// A workTree is a source tree of ours whose files can be patched and restored. Only files that differ are
// written, so that make sees no more changes than there are. It survives being killed at any point:
// originals are kept beside the tree, and the journal names them, before a file is touched. Its
// methods are called with the source's lock held.
type workTree struct{ dir string } // holds tree, pristine, patched.json

func (w workTree) tree() string { return filepath.Join(w.dir, "tree") }

// journal names the files that may differ from the originals; the value is whether there is one.
func (w workTree) journal() (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(w.dir, "patched.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, err
	}
	var j map[string]bool
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("read what was patched: %w", err)
	}
	return j, nil
}

// read returns a file below dir; nil if there is none. A link can't lead it out of dir.
func readBelow(dir, name string) (content, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if text == nil && err == nil {
		text = []byte{}
	}
	return text, err
}

// writeBelow makes a file below dir hold c. A disk that fills, or a kill, leaves the file as it was.
func writeBelow(dir, name string, c content) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if c == nil {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	part := name + ".napistall-part"
	if err := root.WriteFile(part, c, 0o644); err != nil {
		_ = root.Remove(part) // the first error says it all
		return err
	}
	return root.Rename(part, name)
}

// original returns what a file held before any patch.
func (w workTree) original(journal map[string]bool) func(string) (content, error) {
	return func(name string) (content, error) {
		there, touched := journal[name]
		switch {
		case touched && !there:
			return nil, nil
		case touched:
			return readBelow(filepath.Join(w.dir, "pristine"), name)
		}
		return readBelow(w.tree(), name)
	}
}

// patch makes the tree what it is with patches and edit, and without any others. It returns the forms used, and
// edit's diff. Edit changes kernel/Kconfig.preempt.
func (w workTree) patch(patches []patch, edit func(text string) (edited, diff string)) (forms []string, diff string, err error) {
	journal, err := w.journal()
	if err != nil {
		return nil, "", err
	}
	original := w.original(journal)
	wanted := make(map[string]content)
	for _, p := range patches {
		form, err := p.apply(wanted, original)
		if err != nil {
			return nil, "", &SpecError{p.name, err.Error()}
		}
		forms = append(forms, form)
	}
	if diff, err = editKconfig(wanted, original, edit); err != nil {
		return nil, "", err
	}
	for name := range wanted {
		if _, ok := journal[name]; ok {
			continue
		}
		c, err := original(name)
		if err != nil {
			return nil, "", err
		}
		if err := w.keep(name, c); err != nil {
			return nil, "", fmt.Errorf("keep the original of %s: %w", name, err)
		}
		journal[name] = c != nil
	}
	if err := w.write(journal, wanted); err != nil {
		return nil, "", fmt.Errorf("patch the source: %w", err)
	}
	return forms, diff, nil
}

// editKconfig changes kernel/Kconfig.preempt, as patched so far, by edit.
func editKconfig(wanted map[string]content, original func(string) (content, error), edit func(string) (string, string)) (diff string, err error) {
	old, ok := wanted[kconfigPreempt]
	if !ok {
		if old, err = original(kconfigPreempt); err != nil {
			return "", err
		}
	}
	edited, diff := edit(string(old))
	if diff != "" {
		wanted[kconfigPreempt] = content(edited)
	}
	return diff, nil
}

// keep puts an original beside the tree.
func (w workTree) keep(name string, c content) error {
	if err := os.MkdirAll(filepath.Join(w.dir, "pristine"), 0o755); err != nil || c == nil {
		return err
	}
	return writeBelow(filepath.Join(w.dir, "pristine"), name, c)
}

// write brings every file in the journal to what is wanted, or back to its original.
func (w workTree) write(journal map[string]bool, wanted map[string]content) error {
	if len(journal) == 0 {
		return nil
	}
	if err := writeJSON(filepath.Join(w.dir, "patched.json"), journal); err != nil {
		return err
	}
	original := w.original(journal)
	left := make(map[string]bool)
	for name, there := range journal {
		c, ok := wanted[name]
		if ok {
			left[name] = there
		} else {
			var err error
			if c, err = original(name); err != nil {
				return err
			}
		}
		now, err := readBelow(w.tree(), name)
		if err != nil {
			return err
		}
		if (now == nil) == (c == nil) && bytes.Equal(now, c) {
			continue
		}
		if err := writeBelow(w.tree(), name, c); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(w.dir, "patched.json"), left)
}
