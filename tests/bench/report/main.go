// Command report prints what the benchmarks wrote into the file RESULTS: the times, and the ratios
// and counted values beside their limits and those of a baseline. Each benchmark that ends appends
// a line to the file that SANDBOXD_BENCH_OUT names; make bench sets it and calls report.
//
//	report [-baseline FILE] [-save FILE] RESULTS
//
// It exits 1 if a limit does not hold, and 2 if it cannot read or write a file or RESULTS is
// empty. A figure that the baseline does not have is shown as "-". -save writes the figures of this run alone as the
// next baseline, also when a limit does not hold: run all benchmarks for it.
//
// It only reads what package bench wrote, and judges nothing again. A new kind of figure is a field of
// [bench.Result], a row in printLimits, and one in main_test.go.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/sandboxd/sandboxd/tests/bench"
)

func main() {
	baseline := flag.String("baseline", "", "earlier ratios to print beside the new ones")
	save := flag.String("save", "", "write the ratios as a baseline")
	flag.Parse()
	ok, err := run(flag.Arg(0), *baseline, *save)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(path, baseline, save string) (ok bool, err error) {
	results, err := read(path)
	if err != nil {
		return false, err
	}
	was := map[string]float64{}
	if baseline != "" {
		text, err := os.ReadFile(baseline)
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal(text, &was); err != nil {
			return false, fmt.Errorf("%s: %w", baseline, err)
		}
	}
	printCases(os.Stdout, results)
	now, ok := printLimits(os.Stdout, results, was)
	if save == "" {
		return ok, nil
	}
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return false, err
	}
	return ok, os.WriteFile(save, append(text, '\n'), 0o644)
}

func read(path string) ([]bench.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var results []bench.Result
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r bench.Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s holds no result", path)
	}
	return results, lines.Err()
}

func printCases(w io.Writer, results []bench.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BENCHMARK\tCASE\tMEDIAN\tP99\tSAMPLES")
	for _, r := range results {
		for _, c := range r.Cases {
			fmt.Fprintf(t, "%s\t%s\t%v\t%v\t%d\n", r.Name, c.Name, c.Median, c.P99, c.Samples)
		}
	}
	fmt.Fprintln(t)
	t.Flush()
}

// printLimits returns the figures by name, and whether all are within limits.
func printLimits(w io.Writer, results []bench.Result, was map[string]float64) (map[string]float64, bool) {
	now, ok := map[string]float64{}, true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BENCHMARK\tFIGURE\tNOW\tBASELINE\tLIMIT\t")
	row := func(name, figure string, value float64, limit string, good bool) {
		key := name + " " + figure
		before, mark := "-", ""
		if b, seen := was[key]; seen {
			before = fmt.Sprintf("%.3g", b)
		}
		if !good {
			ok, mark = false, "OVER THE LIMIT"
		}
		now[key] = value
		fmt.Fprintf(t, "%s\t%s\t%.3g\t%s\t%s\t%s\n", name, figure, value, before, limit, mark)
	}
	for _, r := range results {
		for _, l := range r.Limits {
			row(r.Name, l.Case+" / "+l.Over, l.Ratio, limit(l.AtMost, l.Plus), l.OK)
		}
		for _, v := range r.Values {
			row(r.Name, v.Name+" ("+v.Unit+")", v.Value, limit(v.AtMost, 0), v.OK)
		}
	}
	t.Flush()
	return now, ok
}

func limit(atMost float64, plus time.Duration) string {
	switch {
	case atMost == 0:
		return "-"
	case plus == 0:
		return fmt.Sprintf("%.3g", atMost)
	}
	return fmt.Sprintf("%.3g + %v", atMost, plus)
}
