package klog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lines splits console text, or what a log daemon, dmesg or a mail made of it, into the kernel's lines.
// It takes off line ends (LF, CRLF or CR), level ("<4>"), stamp ("[   12.345678]"), caller
// ("[  T817]", "[   C1]"), a syslog or journal head up to "kernel: ", netconsole's extended head,
// the date of dmesg -T, and mail quoting, and undoes rsyslog's #011 for TAB. Empty lines are left
// out. A second stamp within a line begins a line of its own: that is how two writers on one
// console run into each other. Texts are parts of text, not copies.
func Lines(text string) []Line {
	// Room for lines of ordinary length; a text of nothing but line ends doesn't get more.
	lines := make([]Line, 0, min(strings.Count(text, "\n")+1, len(text)/32+1))
	for len(text) > 0 {
		var raw string
		if i := strings.IndexAny(text, "\r\n"); i >= 0 {
			raw, text = text[:i], text[i+1:]
		} else {
			raw, text = text, ""
		}
		lines = appendUnwrapped(lines, raw)
	}
	return lines
}

// appendUnwrapped appends the lines in raw, which has no line end.
func appendUnwrapped(lines []Line, raw string) []Line {
	l := unwrap(raw)
	for {
		i, stamp, n := nextStamp(l.Text)
		if i < 0 {
			break
		}
		if head := strings.TrimRight(untab(l.Text[:i]), " "); strings.TrimSpace(head) != "" {
			lines = append(lines, Line{l.Stamp, l.HasStamp, head})
		}
		l = Line{stamp, true, caller(l.Text[i+n:])}
	}
	if l.Text = strings.TrimRight(untab(l.Text), " \t\x00"); strings.TrimSpace(l.Text) == "" {
		return lines
	}
	return append(lines, l)
}

// untab undoes rsyslog's escape of TAB.
func untab(s string) string {
	if strings.Contains(s, "#011") {
		return strings.ReplaceAll(s, "#011", "\t")
	}
	return s
}

// headReach is how far into a line a stamp or "kernel: " is looked for: behind a date, a host and a
// daemon's name.
const headReach = 160

// unwrap takes the wrapping off one line.
func unwrap(s string) Line {
	s = unquote(s)
	if len(s) > 2 && s[0] == '<' {
		if n := digits(s[1:]); n > 0 && n <= 3 && 1+n < len(s) && s[1+n] == '>' {
			s = s[n+2:]
		}
	}
	if stamp, n, ok := stampAt(s); ok {
		return Line{stamp, true, afterHost(caller(s[n:]))}
	}
	if l, ok := netconsole(s); ok {
		return l
	}
	if strings.HasPrefix(s, "[") {
		return Line{Text: undate(s)}
	}
	near := s[:min(len(s), headReach)]
	if i, stamp, n := nextStamp(near); i >= 0 {
		return Line{stamp, true, caller(s[i+n:])}
	}
	if i := strings.Index(near, "kernel: "); i == 0 || i > 0 && (near[i-1] == ' ' || near[i-1] == '.') {
		s = s[i+len("kernel: "):]
		if l, ok := netconsole(s); ok {
			return l
		}
	} else if rest, ok := strings.CutPrefix(strings.TrimLeft(s, " "), "kernel:"); ok { // syslogd's broadcast
		s = rest
	}
	near = s[:min(len(s), headReach)]
	if i := strings.Index(near, ",-"); i > 0 || strings.Contains(near, ",c,") { // a receiver put date and host in front
		i = max(i, strings.Index(near, ",c,"))
		if l, ok := netconsole(s[strings.LastIndexByte(near[:i], ' ')+1:]); ok {
			return l
		}
	}
	return Line{Text: s}
}

// afterHost takes off the "host kernel: " of journalctl -o short-monotonic.
func afterHost(s string) string {
	host, text, found := strings.Cut(s[:min(len(s), 80)], " kernel: ")
	if found && !strings.Contains(host, " ") {
		return s[len(s[:min(len(s), 80)])-len(text):]
	}
	return s
}

// unquote takes off a mail's quoting: "> ", ">>", "| ".
func unquote(s string) string {
	if s != "" && (s[0] == '>' || s[0] == '|') {
		return strings.TrimLeft(s, ">| ")
	}
	return s
}

// stampAt reads the "[   12.345678]" that s begins with (print_time, kernel/printk/printk.c) and returns
// the length of it.
func stampAt(s string) (stamp time.Duration, n int, ok bool) {
	if len(s) == 0 || s[0] != '[' {
		return 0, 0, false
	}
	i := 1
	for i < len(s) && s[i] == ' ' {
		i++
	}
	sec := digits(s[i:])
	if sec == 0 || sec > 9 || i+sec >= len(s) || s[i+sec] != '.' {
		return 0, 0, false
	}
	dot := i + sec
	frac := digits(s[dot+1:])
	end := dot + 1 + frac
	if frac == 0 || frac > 9 || end >= len(s) {
		return 0, 0, false
	}
	if past := sinceLast(s[end:]); past > 0 {
		end += past
	}
	if end >= len(s) || s[end] != ']' {
		return 0, 0, false
	}
	whole, _, _ := number(s[i:dot])
	part, _, _ := number(s[dot+1 : end])
	for range 9 - frac {
		part *= 10
	}
	return time.Duration(whole)*time.Second + time.Duration(part), end + 1, true
}

// sinceLast returns the length of the " <    0.000012>" that dmesg -d has within a stamp.
func sinceLast(s string) int {
	if !strings.HasPrefix(s, " <") {
		return 0
	}
	return strings.IndexByte(s[:min(len(s), 20)], '>') + 1
}

// nextStamp finds the first stamp in s that is as wide as the kernel prints them ("[%5lu.%06lu]"), so
// that a bracketed number in a message is not taken for one.
func nextStamp(s string) (at int, stamp time.Duration, n int) {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '[')
		if i < 0 {
			return -1, 0, 0
		}
		from += i
		stamp, n, ok := stampAt(s[from:])
		if ok && n >= len("[    0.000000]") && s[from+n-8] == '.' {
			return from, stamp, n
		}
		from++
	}
}

// caller takes off the "[  T817]" or "[   C1]" of CONFIG_PRINTK_CALLER and the space before the text.
func caller(s string) string {
	if strings.HasPrefix(s, "[") {
		inner := strings.TrimLeft(s[1:], " ")
		if inner != "" && (inner[0] == 'T' || inner[0] == 'C') {
			n := digits(inner[1:])
			if n > 0 && strings.HasPrefix(inner[1+n:], "]") {
				s = inner[n+2:]
			}
		}
	}
	return strings.TrimPrefix(mediatek(s), " ")
}

// mediatek takes off the " (1)[715:napi/eth0-3]" that kernels of that vendor's phones and routers have for the caller.
func mediatek(s string) string {
	rest, found := strings.CutPrefix(strings.TrimLeft(s, " -"), "(")
	n := digits(rest)
	if !found || n == 0 || n > 2 || !strings.HasPrefix(rest[n:], ")[") {
		return s
	}
	task, text, found := strings.Cut(rest[n+2:], "]")
	if !found || len(task) > 40 || digits(task) == 0 || !strings.HasPrefix(task[digits(task):], ":") {
		return s
	}
	return text
}

// undate takes off the "[Wed Feb  8 08:14:38 2023] " of dmesg -T, which is no stamp since boot.
func undate(s string) string {
	date, text, found := strings.Cut(s, "] ")
	if found && reltime(date) {
		return text
	}
	if found && len(date) >= 20 && len(date) <= 32 && strings.Count(date, ":") == 2 &&
		digits(date[len(date)-4:]) == 4 {
		return text
	}
	return s
}

// reltime reports whether date is one of dmesg -H: "[Nov30 18:25", and then "[  +0.000123".
func reltime(date string) bool {
	since, found := strings.CutPrefix(strings.TrimLeft(date[1:], " "), "+")
	if n := digits(since); found && n > 0 && strings.HasPrefix(since[n:], ".") {
		return len(date) <= 20 && digits(since[n+1:]) == len(since)-n-1
	}
	return len(date) >= 11 && len(date) <= 13 && date[len(date)-3] == ':' && digits(date[len(date)-2:]) == 2 && !isDigit(date[1]) && digits(date[4:]) > 0
}

// netconsole takes the extended head "level,seq,usec,flags[,key=value…];" off.
func netconsole(s string) (Line, bool) {
	if s == "" || !isDigit(s[0]) {
		return Line{}, false
	}
	end := strings.IndexByte(s[:min(len(s), headReach)], ';')
	if end < 0 {
		return Line{}, false
	}
	_, _, stamp, err := kmsgHead(s[:end])
	if err != nil {
		return Line{}, false
	}
	return Line{stamp, true, unescape(s[end+1:])}, true
}

// ParseKmsg reads one record of /dev/kmsg, as one read(2) returns it: "prio,seq,usec,flags[,…];text", then
// lines that begin with a space and describe the device (Documentation/ABI/testing/dev-kmsg). The level is
// prio's lower three bits, 0 emergency to 7 debug. Escapes (\x09) are undone in the text, which
// has an LF inside where the kernel printed several lines at once. An error says what is wrong with the head;
// the text can be anything.
func ParseKmsg(record string) (seq uint64, level int, l Line, err error) {
	head, body, found := strings.Cut(record, ";")
	if !found {
		return 0, 0, Line{}, fmt.Errorf("kmsg record %q: no semicolon", clip(record))
	}
	seq, level, stamp, err := kmsgHead(head)
	if err != nil {
		return 0, 0, Line{}, fmt.Errorf("kmsg record %q: %w", clip(record), err)
	}
	text, _, _ := strings.Cut(body, "\n") // the rest is the device's dictionary
	return seq, level, Line{stamp, true, unescape(text)}, nil
}

// kmsgHead reads "prio,seq,usec,flags".
func kmsgHead(head string) (seq uint64, level int, stamp time.Duration, err error) {
	f := strings.SplitN(head, ",", 5)
	if len(f) < 4 {
		return 0, 0, 0, fmt.Errorf("%d fields, want prio,seq,usec,flags", len(f))
	}
	prio, err := strconv.ParseUint(f[0], 10, 32)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("priority: %w", err)
	}
	if seq, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return 0, 0, 0, fmt.Errorf("sequence number: %w", err)
	}
	usec, err := strconv.ParseUint(f[2], 10, 53) // 53 bits of µs still fit in a Duration
	if err != nil {
		return 0, 0, 0, fmt.Errorf("time: %w", err)
	}
	return seq, int(prio & 7), time.Duration(usec) * time.Microsecond, nil
}

// unescape undoes the \xNN of /dev/kmsg.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, `\x`)
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		v, err := strconv.ParseUint(s[min(2, len(s)):min(4, len(s))], 16, 8)
		if len(s) < 4 || err != nil {
			b.WriteString(s[:2])
			s = s[2:]
			continue
		}
		b.WriteByte(byte(v))
		s = s[4:]
	}
	b.WriteString(s)
	return b.String()
}
