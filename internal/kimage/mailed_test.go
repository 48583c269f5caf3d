package kimage

import (
	"bytes"
	"encoding/base64"
	"mime/quotedprintable"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mailedDiff = `---
 f | 2 +-

diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,2 +1,2 @@
 a = "héhé=20"; /* a line that is longer than the seventy-six characters that quoted-printable allows in one */
-	b
+	c	
--
2.47.3
`

// Mails are what they are as plain text, however they were encoded, alone and one after another.
func TestDecodeMail(t *testing.T) {
	want, err := parsePatch([]byte(mailedDiff))
	if err != nil {
		t.Fatal(err)
	}
	var quoted bytes.Buffer
	w := quotedprintable.NewWriter(&quoted)
	if _, err := w.Write([]byte(mailedDiff)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed := base64.StdEncoding.EncodeToString([]byte(mailedDiff))
	var lines strings.Builder
	for len(packed) > 76 {
		lines.WriteString(packed[:76] + "\n")
		packed = packed[76:]
	}
	lines.WriteString(packed + "\n")
	const from = "From 0123456789 Mon Sep 17 00:00:00 2001\n"
	head := func(encoding string) string {
		return "From: A <a@b>\nSubject: [PATCH] x\n y\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: " + encoding + "\n\n"
	}
	qp, b64, plain := head("quoted-printable")+strings.ReplaceAll(quoted.String(), "\r\n", "\n"), head("base64")+lines.String(), head("8bit")+mailedDiff
	attached := "Subject: x\nContent-Type: multipart/mixed; boundary=\"--=_b\"\n\n----=_b\nContent-Type: text/plain\n\nHello.\n\n" +
		"----=_b\nContent-Type: text/x-patch; name=x.patch\nContent-Transfer-Encoding: base64\n\n" + lines.String() +
		"----=_b\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\n" + lines.String() + "----=_b--\n"
	for name, tt := range map[string]struct {
		text  string
		times int
	}{
		"plain":            {from + plain, 1},
		"quoted-printable": {from + qp, 1},
		"base64":           {from + b64, 1},
		"without From":     {qp, 1},
		"CRLF":             {strings.ReplaceAll(qp, "\n", "\r\n"), 1},
		"attached":         {from + attached, 1},
		"a mailbox":        {from + qp + "\n" + from + plain + "\n" + from + b64, 3},
	} {
		got, err := parsePatch([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all []filePatch
		for range tt.times {
			all = append(all, want...)
		}
		if d := cmp.Diff(all, got, cmp.AllowUnexported(filePatch{}, hunk{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// A patch that is in the source already is said to be, one that only looks like it in a part is not.
func TestPatchApplied(t *testing.T) {
	const text = "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n one\n+two\n@@ -4 +5 @@\n-four\n+vier\n--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+new\n"
	files, err := parsePatch([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := patch{forms: []patchForm{{name: "x", files: files}}}
	for name, tt := range map[string]struct {
		source  map[string]content
		applied bool
	}{
		"all":  {map[string]content{"f": content("one\ntwo\nzwei\ndrei\nvier\n"), "g": content("new\n")}, true},
		"half": {map[string]content{"f": content("one\ntwo\nzwei\ndrei\nfour\n"), "g": content("new\n")}, false},
		"less": {map[string]content{"f": content("one\ntwo\nzwei\ndrei\nvier\n")}, false},
	} {
		_, err := p.apply(map[string]content{}, func(name string) (content, error) { return tt.source[name], nil })
		if (err == errApplied) != tt.applied || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
