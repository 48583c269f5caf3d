package sim

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

func TestDump(t *testing.T) {
	spec := os.Getenv("ARM")
	if spec == "" {
		t.Skip()
	}
	t0 := time.Now()
	recs := records(t, armOf(t, spec), 1)
	d := time.Since(t0)
	for _, r := range recs {
		b, _ := json.Marshal(r)
		s := string(b)
		if len(s) > 330 {
			s = s[:330]
		}
		t.Log(s)
	}
	t.Log(d)
}
