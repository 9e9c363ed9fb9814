package replay_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/policy/replay"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReplay judges 10,000 recorded command lines of a day's work by the library and
// 200 permission rules, and again by rules that count.
func BenchmarkReplay(b *testing.B) {
	w, close := daemonWith(policy.Options{})
	defer close()
	lines := []string{
		"git status", "go test ./... | tail -5", "ls -la src && cat src/a.go", "git commit -m 'one two' && git push",
		"grep -rn 'func New' --include=*.go . | head -20", "npm run build", "sed -i s/a/b/ src/a.go", "cd sub; make -j4 test",
		"for f in *.go; do gofmt -l $f; done", "curl -s https://a.example/x > /tmp/x",
	}
	const calls = 10_000
	for i := range calls {
		w.run(fmt.Sprintf("%s; echo %d", lines[i%len(lines)], i))
	}
	records := w.records()
	many := permission.Rules{Ask: []string{"Bash(git push *)"}}
	for i := range 200 {
		many.Deny = append(many.Deny, fmt.Sprintf("Bash(tool%d sub *)", i))
	}
	for name, o := range map[string]policy.Options{
		"library and 200 rules": {Rules: many}, "rules that count": {Dirs: dirOf(b, quota(1_000_000))},
	} {
		o.Deadline = time.Minute
		e, err := policy.New(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		start := processorTime(b)
		report, err := replay.Run{Now: e.Judge()}.Of(context.Background(), records)
		took := processorTime(b) - start
		if err != nil || report.Calls != calls {
			b.Fatalf("%d calls judged, %v: %v", report.Calls, report.Unknown, err)
		}
		bench.Value(b, "processor time of 10,000 recorded calls, "+name, took.Seconds(), "s", 3)
	}
}
