package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// table is what happened, a row a step.
type table struct{ rows [][4]string }

func (t *table) row(step string, took time.Duration, traffic, outcome string) {
	if traffic == "" {
		traffic = "-"
	}
	t.rows = append(t.rows, [4]string{step, fmt.Sprintf("%.1fs", took.Seconds()), traffic, outcome})
}

func (t *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "STEP\tTIME\tREQUESTS\tOUTCOME")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r[0], r[1], r[2], r[3])
	}
	_ = w.Flush()
}
