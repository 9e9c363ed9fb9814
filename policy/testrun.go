package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/sandboxd/sandboxd/policy/permission"

	library "github.com/sandboxd/sandboxd/rego"
)

// TestReport is the outcome of [Test].
type TestReport struct {
	Tests    []TestResult   `json:"tests"`
	Coverage []FileCoverage `json:"coverage"`
	Examples string         `json:"examples,omitempty"` // the examples that do not hold, one a line
}

// TestResult is one rule that begins with test_.
type TestResult struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Pass     bool          `json:"pass"`
	Skip     bool          `json:"skip,omitempty"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// FileCoverage says how much of a file its tests and examples ran.
type FileCoverage struct {
	File    string  `json:"file"`
	Percent float64 `json:"percent"`
	Covered int     `json:"covered_lines"`
	Missing []int   `json:"missing_lines,omitempty"`
}

// Failed reports whether any test or example failed.
func (r TestReport) Failed() bool {
	return r.Examples != "" || slices.ContainsFunc(r.Tests, func(t TestResult) bool { return !t.Pass && !t.Skip })
}

// Test loads what opts name and runs the examples and every _test.rego: the
// operator's, or the library's when opts name no directory.
func Test(ctx context.Context, opts Options) (TestReport, error) {
	opts.Profile = cmp.Or(opts.Profile, ProfileDeveloper)
	r, modules, err := loadModules(ctx, opts, nil)
	if err != nil {
		return TestReport{}, err
	}
	own := operatorFile
	if len(opts.Dirs) == 0 {
		own = func(string) bool { return true }
	}
	return r.test(ctx, opts, modules, own)
}

// test runs the examples of the modules and the tests beside them.
func (r *revision) test(ctx context.Context, opts Options, modules map[string]*ast.Module, own func(string) bool) (
	TestReport, error,
) {
	coverage := cover.New()
	r.coverage = coverage
	var report TestReport
	if err := r.checkExamples(ctx, opts.Facts, modules, own); err != nil {
		report.Examples = err.Error()
	}
	tests, err := readTests(opts)
	if err != nil {
		return TestReport{}, err
	}
	all, err := parse(tests)
	if err != nil {
		return TestReport{}, err
	}
	maps.Copy(all, modules)
	return report, report.run(ctx, opts, all, own, coverage)
}

func (r *TestReport) run(ctx context.Context, opts Options, modules map[string]*ast.Module, own func(string) bool,
	coverage *cover.Cover,
) error {
	data, err := permission.Tables(opts.Rules)
	if err != nil {
		return err
	}
	caps, err := capabilities()
	if err != nil {
		return err
	}
	store := inmem.NewFromObject(map[string]any{"sandboxd": map[string]any{"rules": data}})
	txn, err := store.NewTransaction(ctx, storage.TransactionParams{})
	if err != nil {
		return err
	}
	defer store.Abort(ctx, txn)
	runner := tester.NewRunner().
		SetCompiler(ast.NewCompiler().WithCapabilities(caps).WithEnablePrintStatements(true)).
		SetStore(store).SetModules(modules).CapturePrintOutput(true).RaiseBuiltinErrors(true).
		SetCoverageQueryTracer(coverage).SetTimeout(10 * time.Second)
	results, err := runner.RunTests(ctx, txn)
	if err != nil {
		return fmt.Errorf("compile tests: %w", err)
	}
	for x := range results {
		if own(x.Location.File) {
			r.Tests = append(r.Tests, newTestResult(x))
		}
	}
	slices.SortFunc(r.Tests, func(a, b TestResult) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	r.cover(coverage, modules, own)
	return nil
}

func newTestResult(x *tester.Result) TestResult {
	t := TestResult{
		Name: strings.TrimPrefix(x.Package, "data.") + "." + x.Name, File: x.Location.File, Line: x.Location.Row,
		Pass: x.Pass(), Skip: x.Skip, Duration: x.Duration,
	}
	if x.Error != nil {
		t.Error = x.Error.Error()
	}
	return t
}

func (r *TestReport) cover(c *cover.Cover, modules map[string]*ast.Module, own func(string) bool) {
	report := c.Report(modules)
	for _, file := range slices.Sorted(maps.Keys(report.Files)) {
		if strings.HasSuffix(file, "_test.rego") || !own(file) {
			continue
		}
		f := report.Files[file]
		fc := FileCoverage{File: file, Percent: f.Coverage, Covered: f.CoveredLines}
		for _, n := range f.NotCovered {
			for row := n.Start.Row; row <= n.End.Row; row++ {
				fc.Missing = append(fc.Missing, row)
			}
		}
		slices.Sort(fc.Missing)
		fc.Missing = slices.Compact(fc.Missing)
		r.Coverage = append(r.Coverage, fc)
	}
}

// readTests reads the _test.rego files beside what readSources reads.
func readTests(opts Options) ([]source, error) {
	var out []source
	for _, dir := range libraryDirs(opts.Profile) {
		s, err := readTree(library.Files, dir, libraryPrefix, isTest)
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	own, err := ownTests(opts)
	return append(out, own...), err
}

// ownTests returns the operator's.
func ownTests(opts Options) (out []source, err error) {
	for _, dir := range opts.Dirs {
		s, err := readTree(os.DirFS(dir), ".", strings.TrimSuffix(dir, "/")+"/", isTest)
		if err != nil {
			return nil, fmt.Errorf("read tests in %q: %w", dir, err)
		}
		out = append(out, s...)
	}
	return out, nil
}

// checkTests runs the operator's tests and joins those that fail.
func checkTests(ctx context.Context, opts Options, modules map[string]*ast.Module) error {
	tests, err := ownTests(opts)
	if err != nil || len(tests) == 0 {
		return err
	}
	all, err := parse(tests)
	if err != nil {
		return err
	}
	maps.Copy(all, modules)
	var report TestReport
	if err := report.run(ctx, opts, all, operatorFile, cover.New()); err != nil {
		return err
	}
	var errs []error
	for _, t := range report.Tests {
		if !t.Pass && !t.Skip {
			errs = append(errs,
				fmt.Errorf("%s:%d: test %s fails: %s", t.File, t.Line, t.Name, cmp.Or(t.Error, "it is not true")))
		}
	}
	return errors.Join(errs...)
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.rego") }
