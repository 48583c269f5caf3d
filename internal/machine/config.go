package machine

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// config is a kernel's configuration as far as it was found.
type config struct {
	from   string            // "/proc/config.gz"; "" when there is none
	values map[string]string // "CONFIG_HZ" → "250"; "is not set" is absent
	kept   []string          // the lines that matter here, sorted
}

// readConfig reads the running kernel's own configuration, else the one that the distribution put
// beside it.
func readConfig(s Source, release string) config {
	for _, c := range []struct{ path, name string }{
		{"proc/config.gz", "/proc/config.gz"},
		{"boot/config-" + release, "/boot/config-" + release},
	} {
		b, err := s.read(c.path)
		if err != nil {
			continue
		}
		if parsed := parseConfig(unzip(b)); len(parsed.values) > 0 {
			parsed.from = c.name
			return parsed
		}
	}
	return config{}
}

// maxConfig bounds what a gzip stream may grow to; a kernel's configuration is about 300 kB.
const maxConfig = 4 << 20

// unzip returns b's content when it is gzip, and else b itself.
func unzip(b []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return b
	}
	text, err := io.ReadAll(io.LimitReader(r, maxConfig))
	if err != nil {
		return nil
	}
	return text
}

// parseConfig returns the settings in a kernel's configuration file.
func parseConfig(text []byte) config {
	c := config{values: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, "=")
		if !ok || !strings.HasPrefix(name, "CONFIG_") {
			continue
		}
		c.values[name] = value
		if rcu.Decides(line) {
			c.kept = append(c.kept, line)
		}
	}
	slices.Sort(c.kept)
	c.kept = slices.Compact(c.kept)
	return c
}
