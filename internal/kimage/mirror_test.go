package kimage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindMirror(t *testing.T) {
	const keyring = "usr/share/keyrings/debian-archive-keyring.gpg"
	tests := []struct {
		name            string
		files           map[string]string
		uri, key, error string
	}{
		{name: "deb822 with a comment, security beside it", files: map[string]string{
			"etc/apt/sources.list.d/debian.sources": "Types: deb\n# http://other.invalid/debian\nURIs: http://main.invalid/debian/\n" +
				"Suites: bookworm bookworm-updates\nComponents: main contrib\nSigned-By: /k/debian-archive-keyring.gpg\n\n" +
				"Types: deb\nURIs: http://sec.invalid/debian-security\nSuites: bookworm-security\nComponents: main\n",
		}, uri: "http://main.invalid/debian", key: "/k/debian-archive-keyring.gpg"},
		{name: "one line with options", files: map[string]string{
			"etc/apt/sources.list": "deb-src http://src.invalid/debian sid main\n" +
				"deb [arch=amd64 signed-by=/k/x.gpg] http://a.invalid/debian trixie main\n",
		}, uri: "http://a.invalid/debian", key: "/k/x.gpg"},
		{name: "keyring by default", files: map[string]string{
			"etc/apt/sources.list": "deb http://a.invalid/debian stable main\n", keyring: "k",
		}, uri: "http://a.invalid/debian", key: "/" + keyring},
		{name: "others' archives", files: map[string]string{
			"etc/apt/sources.list.d/a.list": "deb [signed-by=/k/other.gpg] https://other.invalid/linux/debian trixie main\n" +
				"deb https://cloud.invalid/apt cloud-sdk-bookworm main\n" +
				"deb https://docker.invalid/linux/debian bookworm stable\n",
			"etc/apt/sources.list.d/z.list": "deb http://right.invalid/debian trixie main\n",
		}, uri: "http://right.invalid/debian"},
		{name: "disabled", files: map[string]string{
			"etc/apt/sources.list.d/a.sources": "Enabled: no\nTypes: deb\nURIs: http://a.invalid/debian\nSuites: sid\nComponents: main\n",
		}, error: "no Debian mirror"},
		{name: "another distribution", files: map[string]string{
			"etc/apt/sources.list": "deb http://a.invalid/ubuntu noble main universe\n",
		}, error: "no Debian mirror"},
		{name: "no apt", error: "no Debian mirror"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tt.files {
				writeFile(t, filepath.Join(root, name), []byte(text))
			}
			m, err := findMirror(root)
			if tt.error != "" {
				if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tt.error) {
					t.Errorf("findMirror = %v; want ErrUnsupported with %q", err, tt.error)
				}
				return
			}
			if err != nil || m.uri != tt.uri || m.signedBy != tt.key {
				t.Errorf("findMirror = %+v, %v; want %s signed by %q", m, err, tt.uri, tt.key)
			}
		})
	}
}
