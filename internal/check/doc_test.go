package check

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/checker.md shows the matrix that is expected, and every property.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/checker.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want [][]string
	_, rest, _ := strings.Cut(string(page), "|--|--|--|--|--|--|\n")
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 2 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		got = append(got, cells[1:len(cells)-1])
	}
	for _, r := range Matrix() {
		cells := []string{r.Title, r.Models}
		for _, column := range Columns() {
			text := ""
			for _, c := range r.Cells {
				if c.Column == column {
					text = c.Expected
				}
			}
			cells = append(cells, text)
		}
		want = append(want, cells)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the matrix in docs/checker.md (-want +got):\n%s", diff)
	}
	for _, p := range Properties() {
		if !strings.Contains(string(page), "| `"+string(p)+"` | ") {
			t.Errorf("docs/checker.md doesn't have the property %s", p)
		}
	}
}
