package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Result is what one benchmark found; times are in nanoseconds.
type Result struct {
	Name   string        `json:"name"` // package and benchmark: "sandbox.Call"
	Cases  []CaseResult  `json:"cases,omitempty"`
	Limits []LimitResult `json:"limits,omitempty"`
	Values []ValueResult `json:"values,omitempty"`
}

// CaseResult is the time of one case; a sample is the mean of Batch calls.
type CaseResult struct {
	Name    string        `json:"name"`
	Median  time.Duration `json:"median_ns"`
	P99     time.Duration `json:"p99_ns"`
	Samples int           `json:"samples"`
	Batch   int           `json:"batch"`
}

// LimitResult is a ratio and whether it holds; AtMost 0 has no gate.
type LimitResult struct {
	Case   string        `json:"case"`
	Over   string        `json:"over"`
	Ratio  float64       `json:"ratio"`
	AtMost float64       `json:"at_most,omitempty"`
	Plus   time.Duration `json:"plus_ns,omitempty"`
	OK     bool          `json:"ok"`
}

// ValueResult is something counted.
type ValueResult struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	AtMost float64 `json:"at_most,omitempty"`
	OK     bool    `json:"ok"`
}

func name(b *testing.B) string {
	pkg := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	return pkg + "." + strings.TrimPrefix(b.Name(), "Benchmark")
}

func report(b *testing.B, res Result) {
	b.Helper()
	fmt.Println(res.Name) // not b.Log, of which the testing package shows ten lines
	for _, c := range res.Cases {
		fmt.Printf("    %-24s median %-12v p99 %-12v %d samples of %d\n", c.Name, c.Median, c.P99, c.Samples, c.Batch)
	}
	for _, l := range res.Limits {
		fmt.Printf("    %s is %.3g × %s\n", l.Case, l.Ratio, l.Over)
		if !l.OK {
			b.Errorf("%s is %.3g × %s, want at most %.3g × and %v", l.Case, l.Ratio, l.Over, l.AtMost, l.Plus)
		}
	}
	for _, v := range res.Values {
		fmt.Printf("    %s: %.4g %s\n", v.Name, v.Value, v.Unit)
		if !v.OK {
			b.Errorf("%s is %.4g %s, want at most %.4g", v.Name, v.Value, v.Unit, v.AtMost)
		}
	}
	path := os.Getenv("SANDBOXD_BENCH_OUT")
	if path == "" {
		return
	}
	line, err := json.Marshal(res)
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		b.Fatal(err)
	}
}
