package experiment

import "time"

// An Expectation is one line under expect:, either about one arm ("stock.worst >= 10s") or about
// two ("patched vs stock: over-1s lower").
type Expectation struct {
	Text string `json:"text"` // as written
	Arm  string `json:"arm"`
	// Vs is the arm that Arm is compared with, for "A vs B: QUANTITY lower|higher|same"; else empty.
	Vs string `json:"vs,omitempty"`
	// Quantity is worst, median, deletes, over-1s, stalls, classic, expedited, soft-lockups or band.
	Quantity string `json:"quantity"`
	// Op is one of < <= == != >= >, or with Vs one of lower, higher, same.
	Op string `json:"op"`
	// The right-hand side: Duration for worst and median, Count for the numbers, Word for band.
	Duration time.Duration `json:"duration,omitempty"`
	Count    int           `json:"count,omitempty"`
	Word     string        `json:"word,omitempty"`
}
