package kimage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Progress says how far a build is.
type Progress struct {
	Files   int           // compiled so far
	Of      int           // of about as many; 0 if not known
	Elapsed time.Duration // of this build, not of those that it goes on from
	Left    time.Duration // if it goes on as it has; 0 if not known
	File    string        // compiled last
}

// words says p in a line of a log.
func (p Progress) words() string {
	text := fmt.Sprintf("building: %d", p.Files)
	if p.Of > 0 {
		text += fmt.Sprintf(" of about %d", p.Of)
	}
	text += fmt.Sprintf(" files after %v", p.Elapsed.Round(time.Second))
	if p.Left > 0 {
		text += fmt.Sprintf(", about %.0f min to go", p.Left.Minutes())
	}
	return text + ", now " + p.File
}

// whole is the file that says that the object directory has held a whole build.
func (j job) whole() string { return filepath.Join(j.obj, "napistall.whole") }

// counter is the file that says how many files were compiled there for the first whole build, so far.
func (j job) counter() string { return filepath.Join(j.obj, "napistall.files") }

func (j job) counted() int { return readCount(j.counter()) }

func readCount(name string) int {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// usually returns how many files a whole build compiles: as many as another one of this source did.
func (j job) usually() int {
	whole, _ := filepath.Glob(filepath.Join(j.src.work.dir, "obj-*", filepath.Base(j.whole()))) // the pattern is a good one
	most := 0
	for _, name := range whole {
		most = max(most, readCount(filepath.Join(filepath.Dir(name), filepath.Base(j.counter()))))
	}
	if most == 0 {
		return usualFiles
	}
	return most
}

// quiet is a kbuild whose progress nobody hears of: configuring takes a moment.
func (j job) quiet() kbuild {
	k := j.kbuild
	k.say, k.progress, k.usual = func(string) {}, nil, 0
	return k
}

func (j job) again() bool {
	_, err := os.Stat(j.whole())
	return err == nil
}
