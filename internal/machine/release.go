package machine

import (
	"cmp"
	"strconv"
	"strings"
)

// A Release is the comparable part of uname -r: 6.18.44 of "6.18.44+deb13-cloud-amd64". It says nothing
// of what a distributor has added under the same number.
type Release [3]int

// ParseRelease returns the release at the start of a kernel's name, and whether there was one. A missing
// third number is 0.
func ParseRelease(name string) (Release, bool) {
	var r Release
	end := strings.IndexFunc(name, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
	if end >= 0 {
		name = name[:end]
	}
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(parts) < 2 {
		return r, false
	}
	for i, p := range parts[:min(len(parts), 3)] {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return Release{}, false
		}
		r[i] = int(n)
	}
	return r, true
}

// Less reports whether r is older than s.
func (r Release) Less(s Release) bool {
	for i := range r {
		if c := cmp.Compare(r[i], s[i]); c != 0 {
			return c < 0
		}
	}
	return false
}

// Series reports whether r and s are of one stable series: 6.19 and 6.19.9.
func (r Release) Series(s Release) bool { return r[0] == s[0] && r[1] == s[1] }

func (r Release) String() string {
	s := strconv.Itoa(r[0]) + "." + strconv.Itoa(r[1])
	if r[2] > 0 {
		s += "." + strconv.Itoa(r[2])
	}
	return s
}
