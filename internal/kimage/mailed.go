package kimage

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
)

var (
	// mboxLine begins each mail of a mailbox, as git format-patch and mail programs write it.
	mboxLine = regexp.MustCompile(`(?m)^From \S+ .*\d{4}.*\n`)
	// encodedMail is what a mail says whose text isn't there to be read.
	encodedMail = regexp.MustCompile(`(?im)^Content-Transfer-Encoding:[ \t]*(?:quoted-printable|base64)`)
)

// maxMail is more than any patch that people read.
const maxMail = 16 << 20

// decodeMail returns a patch's text with the encodings of mails taken off, and whether there were any. What isn't an
// encoded mail stays as it is.
func decodeMail(text []byte) (plain []byte, decoded bool, err error) {
	if !encodedMail.Match(text) {
		return text, false, nil
	}
	starts := mboxLine.FindAllIndex(text, -1)
	if len(starts) == 0 || starts[0][0] > 0 {
		starts = append([][]int{{0, 0}}, starts...)
	}
	var out bytes.Buffer
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		one := text[at[1]:end]
		if !encodedMail.Match(one) {
			out.Write(one)
			continue
		}
		if err := decodeOne(&out, one); err != nil {
			return nil, false, fmt.Errorf("line %d: decode the mail: %w", 1+bytes.Count(text[:at[0]], []byte("\n")), err)
		}
	}
	return out.Bytes(), true, nil
}

// decodeOne writes the text of a mail.
func decodeOne(w *bytes.Buffer, text []byte) error {
	m, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(text, "\r\n")))
	if err != nil {
		return err
	}
	return decodePart(w, m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, 0)
}

// decodePart writes what is text in a mail or a part of one.
func decodePart(w *bytes.Buffer, contentType, encoding string, body io.Reader, depth int) error {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = "text/plain" // as a mail that says nothing of it
	}
	if strings.HasPrefix(kind, "multipart/") && params["boundary"] != "" && depth < 4 {
		parts := multipart.NewReader(body, params["boundary"])
		for {
			p, err := parts.NextRawPart()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := decodePart(w, p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p, depth+1); err != nil {
				return err
			}
		}
	}
	if kind == "text/html" { // the same once more, for mail programs
		return nil
	}
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	from := w.Len()
	n, err := io.Copy(w, io.LimitReader(body, maxMail+1))
	if err != nil {
		return err
	}
	if n > maxMail {
		return fmt.Errorf("it has more than %d MiB of text", maxMail>>20)
	}
	if w.Len() > from && w.Bytes()[w.Len()-1] != '\n' {
		w.WriteByte('\n')
	}
	return nil
}
