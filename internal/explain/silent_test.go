package explain

import (
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
)

// A control whose guest fell silent or panicked has not shown that there is no stall.
func TestCutControlSaysNothing(t *testing.T) {
	for outcome, want := range map[string]string{
		experiment.Silent:   "says nothing: 1 of 1 trial went silent.",
		experiment.Panicked: "says nothing: 1 of 1 trial ended in a panic.",
	} {
		control := lazy()
		control.outcome = outcome
		v := Judge([]ArmSummary{armOf(stock()), armOf(control)})
		if s := strings.Join(v.Sentences, " "); !strings.Contains(s, want) || strings.Contains(s, "No stall") {
			t.Errorf("%s: %q; want %q", outcome, s, want)
		}
	}
}
