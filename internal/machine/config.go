package machine

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
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
		b, err := os.ReadFile(s.path(c.path))
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
		if matters(name) {
			c.kept = append(c.kept, line)
		}
	}
	slices.Sort(c.kept)
	c.kept = slices.Compact(c.kept)
	return c
}

// matters tells whether a setting bears on the stalls of threaded NAPI or on what we can measure.
func matters(name string) bool {
	if strings.HasPrefix(name, "CONFIG_PREEMPT") || strings.HasPrefix(name, "CONFIG_RCU_") {
		return true
	}
	return slices.Contains([]string{
		"CONFIG_HZ", "CONFIG_NO_HZ_IDLE", "CONFIG_NO_HZ_FULL", "CONFIG_HZ_PERIODIC", "CONFIG_RPS", "CONFIG_VETH",
		"CONFIG_DUMMY", "CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_BPF_EVENTS", "CONFIG_STACKTRACE",
		"CONFIG_TREE_RCU", "CONFIG_ARCH_HAS_PREEMPT_LAZY", "CONFIG_SOFTLOCKUP_DETECTOR", "CONFIG_DETECT_HUNG_TASK",
		"CONFIG_WQ_WATCHDOG", "CONFIG_DEBUG_FS", "CONFIG_PROVE_RCU", "CONFIG_SMP",
	}, name)
}
