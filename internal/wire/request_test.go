package wire

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
)

func TestRequestIsOneLine(t *testing.T) {
	want := Request{Device: "eth0", Trial: experiment.Trial{Rep: 2, Seed: 1 << 63, Arm: experiment.Arm{
		Name: "a\nb", Duration: time.Second, Load: experiment.Load{Kind: experiment.NoLoad, CPU: experiment.LastCPU}}}}
	line, err := want.Line()
	if err != nil || bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
		t.Fatalf("Line = %q, %v; want one line", line, err)
	}
	got, err := DecodeRequest(line)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("DecodeRequest(%q): %v, -want +got:\n%s", line, err, diff)
	}
	if _, err := DecodeRequest([]byte("reboot\n")); err == nil {
		t.Error("DecodeRequest takes what is no request")
	}
}

func TestGreetingIsFoundBehindABanner(t *testing.T) {
	want := Greeting{Version: "v1", Release: "6.12", Undone: []string{"x"}}
	line, err := want.Line()
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "\x1b[0m"} {
		got, ok, err := DecodeGreeting(before + string(line))
		if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
			t.Errorf("DecodeGreeting = %v, %v, -want +got:\n%s", ok, err, diff)
		}
	}
	if _, ok, err := DecodeGreeting("BusyBox v1.36 built-in shell\n"); ok || err != nil {
		t.Errorf("DecodeGreeting = %v, %v; want no greeting", ok, err)
	}
	if _, ok, err := DecodeGreeting(strings.Replace(string(line), "{", "", 1)); !ok || err == nil {
		t.Errorf("DecodeGreeting = %v, %v; want an error", ok, err)
	}
}
