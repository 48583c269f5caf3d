package explain

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/experiment"
)

func labels() []string { return []string{"stock", "patched@2", "lazy@1", "lazy@2"} }

func TestParseThreshold(t *testing.T) {
	tests := map[string]Threshold{
		"stock: over-1s < 5%":              {A: "stock", Quantity: "over-1s", Op: "<", Value: 0.05},
		"patched vs stock:over-1s<=-2.5 %": {A: "patched@2", B: "stock", Quantity: "over-1s", Op: "<=", Value: -0.025},
		"lazy@2 vs lazy@1: shift > -10ms":  {A: "lazy@2", B: "lazy@1", Quantity: "shift", Op: ">", Value: -1e7},
		"  stock :\tp95 >= 1m30s ":         {A: "stock", Quantity: "p95", Op: ">=", Value: 9e10},
		"stock: worst < 1s":                {A: "stock", Quantity: "worst", Op: "<", Value: 1e9},
		"stock: median < 0":                {A: "stock", Quantity: "median", Op: "<", Value: 0},
	}
	for text, want := range tests {
		got, err := ParseThreshold(text, labels())
		want.Text = strings.Join(strings.Fields(text), " ")
		if err != nil || got != want {
			t.Errorf("ParseThreshold(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseThresholdWrong(t *testing.T) {
	tests := []struct{ text, at, msg, want string }{
		{"", "", "an arm is missing", "want ARM: QUANTITY"},
		{"nope: worst < 1s", "nope", "no arm nope", "stock, patched@2"},
		{"lazy: worst < 1s", "lazy", "several runs have an arm lazy", "lazy@1, lazy@2"},
		{"stock vs stock: shift < 1s", "stock:", "held against itself", "two arms"},
		{"stock worst < 1s", "worst", `":" is missing`, "want ARM"},
		{"stock: wurst < 1s", "wurst", `"wurst" is no quantity`, "over-1s, median, p95, worst"},
		{"stock vs patched: median < 1s", "median", `"median" is no quantity`, "over-1s, shift"},
		{"stock:", "", "a quantity is missing", "over-1s"},
		{"stock: worst 1s", "1s", "a comparison is missing", "<, <=, >, >="},
		{"stock: worst == 1s", "==", "no comparison here", "<, <="},
		{"stock: worst <", "", "a value is missing", "a duration"},
		{"stock: worst < 5%", "5%", `"5%" is no value of worst`, "a duration"},
		{"stock: over-1s < 5", "5", `"5" is no value of over-1s`, "a percentage"},
		{"stock: over-1s < 10ms", "10ms", "no value of over-1s", "a percentage"},
		{"stock: over-1s < NaN%", "NaN%", "no value of over-1s", "a percentage"},
		{"stock: over-1s < 1e999%", "1e999%", "no value of over-1s", "a percentage"},
		{"stock: over-1s < -5%", "-5%", "never negative", "a percentage"},
		{"stock: over-1s < 5% or so", "or so", "too much here", "want ARM"},
		{"stock vs : shift < 1s", ": shift", "an arm is missing", "want ARM"},
		{"ünïcode: worst < 1s", "ünïcode", "no arm ünïcode", "stock"},
	}
	for _, tt := range tests {
		_, err := ParseThreshold(tt.text, labels())
		wrong, ok := errors.AsType[*experiment.ParseError](err)
		if !ok {
			t.Errorf("ParseThreshold(%q): %v; want a ParseError", tt.text, err)
			continue
		}
		col := utf8.RuneCountInString(tt.text) + 1
		if tt.at != "" {
			col = utf8.RuneCountInString(tt.text[:strings.Index(tt.text, tt.at)]) + 1
		}
		if tt.at == "stock:" {
			col = 10
		}
		if wrong.Col != col || !strings.Contains(wrong.Msg, tt.msg) || !strings.Contains(wrong.Want, tt.want) {
			t.Errorf("ParseThreshold(%q) = col %d, %q, %q; want col %d, %q, %q", tt.text, wrong.Col, wrong.Msg, wrong.Want, col, tt.msg, tt.want)
		}
	}
}

// An arm's name comes from a file, which may hold anything.
func TestParseThresholdIsHarmless(t *testing.T) {
	for _, text := range []string{"nope: worst < 1s", "x\x1b[31m: worst < 1s"} {
		_, err := ParseThreshold(text, []string{"red\x1b[31m", "\u202eevil"})
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") || !strings.Contains(err.Error(), `want red\x1b[31m, \u202eevil`) {
			t.Errorf("ParseThreshold(%q): %q", text, err)
		}
	}
}

// FuzzThreshold: what is read has two known arms and a sensible value, what is not says where in the text and why.
func FuzzThreshold(f *testing.F) {
	for _, s := range []string{"stock: over-1s < 5%", "patched vs stock: shift <= -10ms", "lazy@1 vs lazy@2: over-1s >= 0 %", "stock: \xff < ", "a vs\nb: %"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := ParseThreshold(text, labels())
		if err != nil {
			wrong, ok := errors.AsType[*experiment.ParseError](err)
			if !ok || wrong.Col < 1 || wrong.Col > utf8.RuneCountInString(text)+1 || wrong.Want == "" || strings.Contains(wrong.Source, "\n") {
				t.Fatalf("ParseThreshold(%q) = %+v", text, err)
			}
			return
		}
		again, err := ParseThreshold(x.Text, labels())
		if err != nil || again != x {
			t.Fatalf("ParseThreshold(%q) = %+v; its text gives %+v, %v", text, x, again, err)
		}
	})
}

func TestCheckThresholds(t *testing.T) {
	stock := sideOf(1, noon(), deletesOf("stock", 6, 30*time.Second)...)
	patched := sideOf(1, noon(), deletesOf("patched", 10, tenth()...)...)
	empty := sideOf(1, noon(), deletesOf("empty", 1)...)
	stock.Label, patched.Label, empty.Label = "stock", "patched", "empty"
	tests := []struct {
		text        string
		status      Status
		got, enough string
	}{
		{"patched: over-1s < 5%", Met, "0 of 80 over 1 s, 95 % interval 0 % to 4.5 %", ""},
		{"patched: over-1s < 1%", Unknown, "0 of 80", "368 with none over 1 s would do"},
		{"stock: over-1s < 5%", NotMet, "6 of 6 over 1 s", ""},
		{"patched vs stock: over-1s < 0%", Met, "0 of 80 against 6 of 6, -100 points", ""},
		{"stock vs patched: over-1s < 5%", NotMet, "+100 points", ""},
		{"patched: median < 200ms", Met, "0.11 s, 95 % interval", ""},
		{"patched: p95 > 1s", NotMet, "95 % interval", ""},
		{"stock: p95 < 40s", Unknown, "30.0 s or more", ""},
		{"patched: worst < 1s", Met, "of 80; what others would take is not known", ""},
		{"patched vs stock: shift < -29s", Met, "-29.9 s (95 % interval", ""},
		{"patched vs stock: shift > 0s", NotMet, "of the medians of trials", ""},
		{"empty: worst < 1s", Unknown, "nothing was measured", ""},
		{"patched vs empty: shift < 1s", Unknown, "80 against 0: nothing to compare", ""},
	}
	for _, tt := range tests {
		sides := []Side{stock, patched, empty}
		x, err := ParseThreshold(tt.text, []string{"stock", "patched", "empty"})
		if err != nil {
			t.Fatal(err)
		}
		k := CheckThresholds([]Threshold{x}, sides)[0]
		if k.Status != tt.status || !strings.Contains(k.Got, tt.got) || !strings.Contains(k.Enough, tt.enough) || tt.enough == "" && k.Enough != "" {
			t.Errorf("%s: %s (%s; %s); want %s (%s; %s)", tt.text, k.Status, k.Got, k.Enough, tt.status, tt.got, tt.enough)
		}
	}
	few := sideOf(1, noon(), deletesOf("few", 1, tenth()[:3]...)...)
	few.Label = "few"
	x, _ := ParseThreshold("few: median < 1s", []string{"few"})
	if k := CheckThresholds([]Threshold{x}, []Side{few})[0]; k.Status != Unknown || !strings.Contains(k.Got, "too few for an interval: 6 would do") {
		t.Errorf("of 3: %+v; want it undecided", k)
	}
}
