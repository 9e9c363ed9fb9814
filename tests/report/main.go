// Command report summarises a run of tests; make test and make race end with it. It reads what
// go test -json wrote and prints the tests that did not run, with the reasons, the slowest packages and
// tests, and the counts:
//
//	report [-slowest 20] FILE…
//
// It exits 1 if a test or a package failed or never ended, or if no test passed, and 2 if it
// cannot read a file. A new section belongs in print, with a line in main_test.go. The report of benchmarks
// is tests/bench/report.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	slowest := flag.Int("slowest", 20, "packages and tests to name")
	flag.Parse()
	r := newRun()
	for _, path := range flag.Args() {
		if err := r.readFile(path); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			os.Exit(2)
		}
	}
	if !r.print(os.Stdout, *slowest) {
		os.Exit(1)
	}
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// result is a test or, without a name of a test, a package.
type result struct {
	pkg, test, how string // pass, fail, skip; "" if it never ended
	seconds        float64
	said           string // the last line that it printed itself: why it was skipped
}

func (r result) name() string { return strings.TrimSpace(r.pkg + " " + r.test) }

type run struct {
	results map[[2]string]*result
	order   []*result
}

func newRun() *run { return &run{results: map[[2]string]*result{}} }

func (r *run) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.read(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (r *run) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line[0] != '{' { // what a compiler says
			continue
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		r.add(e)
	}
}

func (r *run) add(e event) {
	if e.Package == "" {
		return
	}
	key := [2]string{e.Package, e.Test}
	t := r.results[key]
	if t == nil {
		pkg := strings.TrimPrefix(strings.TrimPrefix(e.Package, "github.com/sandboxd/sandboxd"), "/")
		t = &result{pkg: cmp.Or(pkg, "."), test: e.Test}
		r.results[key] = t
		r.order = append(r.order, t)
	}
	switch e.Action {
	case "pass", "fail", "skip":
		t.how, t.seconds = e.Action, e.Elapsed
	case "output":
		line := strings.TrimSpace(e.Output)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			t.said = line
		}
	}
}

// print reports whether everything passed.
func (r *run) print(out io.Writer, slowest int) bool {
	var packages, tests, whole, failed, skipped []*result
	for _, t := range r.order {
		switch {
		case t.test == "":
			packages = append(packages, t)
			continue
		case t.how == "fail" || t.how == "":
			failed = append(failed, t)
		case t.how == "skip":
			skipped = append(skipped, t)
		}
		tests = append(tests, t)
		if !strings.Contains(t.test, "/") {
			whole = append(whole, t)
		}
	}
	list(out, "slowest packages", packages, slowest)
	list(out, "slowest tests", whole, slowest)
	absent := 0
	if len(skipped) > 0 {
		fmt.Fprintln(out, "\nnot run:")
	}
	for _, t := range skipped {
		fmt.Fprintf(out, "  %s: %s\n", t.name(), reason(t.said))
		if !strings.Contains(t.test, "/") {
			absent++
		}
	}
	broken := 0
	if len(failed) > 0 {
		fmt.Fprintln(out, "\nfailed:")
	}
	for _, t := range failed {
		fmt.Fprintf(out, "  %s%s\n", t.name(), map[bool]string{true: " (never ended)"}[t.how == ""])
	}
	for _, p := range packages {
		named := slices.ContainsFunc(failed, func(t *result) bool { return t.pkg == p.pkg })
		if p.how != "pass" && p.how != "skip" && !named {
			fmt.Fprintf(out, "failed: package %s: %s\n", p.pkg, p.said)
			broken++
		}
	}
	if len(whole) > 0 {
		fmt.Fprintf(out, "\n%d of %d top-level tests ran (%.1f %%)\n", len(whole)-absent, len(whole),
			100*float64(len(whole)-absent)/float64(len(whole)))
	}
	passed := len(tests) - len(failed) - len(skipped)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, len(failed)+broken, len(skipped))
	return len(failed)+broken == 0 && passed > 0
}

func list(out io.Writer, title string, all []*result, n int) {
	slices.SortStableFunc(all, func(a, b *result) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, t := range all[:min(n, len(all))] {
		took := time.Duration(t.seconds * float64(time.Second)).Round(100 * time.Millisecond)
		fmt.Fprintf(out, "  %8s %s\n", took, t.name())
	}
}

// reason leaves out in which line of a test file it was skipped.
func reason(line string) string {
	if at, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(at, ".go:") {
		return rest
	}
	return line
}
