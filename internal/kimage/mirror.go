package kimage

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pault.ag/go/debian/control"
)

// A mirror is where this machine gets Debian's archive from.
type mirror struct {
	uri      string
	signedBy string // keyring file; empty leaves it to apt's trusted keys
	rank     int    // how sure it is that this is Debian's main archive
}

// debianSuites are the names that a main archive entry can carry, apart from suffixes such as
// -backports.
var debianSuites = regexp.MustCompile(`^(old-?old|old)?stable$|^(testing|unstable|sid|experimental)$|` +
	`^(buster|bullseye|bookworm|trixie|forky|duke)$`)

// findMirror reads the machine's own apt configuration under root ("/" outside tests) and returns
// its Debian mirror: the main archive, never the security one.
func findMirror(root string) (mirror, error) {
	var best mirror
	for _, name := range sourceFiles(root) {
		text, err := os.ReadFile(name)
		if err != nil {
			return mirror{}, fmt.Errorf("read apt's sources: %w", err)
		}
		entries := oneLineEntries(string(text))
		if filepath.Ext(name) == ".sources" {
			entries = stanzaEntries(string(text))
		}
		for _, e := range entries {
			if m := e.mirror(); m.rank > best.rank {
				best = m
			}
		}
	}
	if best.rank == 0 {
		return mirror{}, unsupportedError("no Debian mirror in this machine's apt configuration " +
			"(/etc/apt/sources.list, sources.list.d): use deb:FILE… or file:IMAGE")
	}
	if best.signedBy == "" {
		for _, ext := range []string{"gpg", "pgp"} {
			keyring := "/usr/share/keyrings/debian-archive-keyring." + ext
			if _, err := os.Stat(filepath.Join(root, keyring)); err == nil {
				best.signedBy = keyring
				break
			}
		}
	}
	return best, nil
}

func sourceFiles(root string) []string {
	dir := filepath.Join(root, "etc/apt")
	var files []string
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the only error is a bad pattern
		slices.Sort(found)
		files = append(files, found...)
	}
	return files
}

// A sourceEntry is one source of packages, in either of apt's notations.
type sourceEntry struct {
	types, uris, suites, components []string
	signedBy                        string
}

// oneLineEntries reads "deb [signed-by=FILE] URI SUITE COMPONENT…" lines; others are passed over.
func oneLineEntries(text string) []sourceEntry {
	var entries []sourceEntry
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		var e sourceEntry
		kind, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if opts, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(opts, "[") {
			for _, o := range strings.Fields(opts[1:]) {
				if v, ok := strings.CutPrefix(o, "signed-by="); ok {
					e.signedBy = v
				}
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if kind != "deb" || len(fields) < 3 {
			continue
		}
		e.types, e.uris, e.suites, e.components = []string{kind}, fields[:1], fields[1:2], fields[2:]
		entries = append(entries, e)
	}
	return entries
}

// stanzaEntries reads deb822 stanzas; a file that isn't one gives what could be read of it.
func stanzaEntries(text string) []sourceEntry {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	reader, err := control.NewParagraphReader(strings.NewReader(strings.Join(kept, "")), nil)
	if err != nil {
		return nil
	}
	var entries []sourceEntry
	for {
		p, err := reader.Next()
		if err != nil {
			return entries
		}
		v := make(map[string]string)
		for key, value := range p.Values {
			v[strings.ToLower(key)] = value
		}
		if strings.EqualFold(strings.TrimSpace(v["enabled"]), "no") {
			continue
		}
		entries = append(entries, sourceEntry{
			types: strings.Fields(v["types"]), uris: strings.Fields(v["uris"]), suites: strings.Fields(v["suites"]),
			components: strings.Fields(v["components"]), signedBy: strings.TrimSpace(v["signed-by"]),
		})
	}
}

// mirror judges whether e is Debian's main archive; rank 0 says that it is not.
func (e sourceEntry) mirror() mirror {
	if !slices.Contains(e.types, "deb") || !slices.Contains(e.components, "main") || len(e.uris) == 0 {
		return mirror{}
	}
	known := false
	for _, s := range e.suites {
		if strings.Contains(s, "security") {
			return mirror{}
		}
		base, _, _ := strings.Cut(s, "-")
		known = known || debianSuites.MatchString(s) || debianSuites.MatchString(base)
	}
	uri := strings.TrimSuffix(e.uris[0], "/")
	if !known || strings.Contains(uri, "security") || strings.ContainsAny(uri, "\"\n") {
		return mirror{}
	}
	m := mirror{uri: uri, signedBy: e.signedBy, rank: 1}
	if strings.HasSuffix(uri, "/debian") {
		m.rank++
	}
	switch {
	case strings.Contains(e.signedBy, "debian-archive"):
		m.rank += 4
	case e.signedBy == "":
		m.rank += 2
	}
	return m
}
