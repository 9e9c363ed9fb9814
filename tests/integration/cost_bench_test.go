package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkFirstBash is a new session with its first call of Bash, over a call in a session that has
// made some.
func BenchmarkFirstBash(b *testing.B) {
	d := newDaemon(b, "")
	warm := d.session()
	bash := func(session string) { d.call(session, "Bash", `{"command": "true"}`) }
	bench.Compare(b, []bench.Case{
		{Name: "warm", N: 100, Run: func() { bash(warm) }},
		{Name: "new session, first Bash", N: 30, Run: func() { bash(d.session()) }},
	}, bench.Limit{Case: "new session, first Bash", Over: "warm", AtMost: 5})
}

// BenchmarkBytesOfARead is how much the record and the database grow by one call of Read.
func BenchmarkBytesOfARead(b *testing.B) {
	d := newDaemon(b, "vars: {capacity: 100000}\n") // nothing is evicted, so nothing is used again
	session := d.session()
	d.write("ws/f.txt", "a line\n")
	size := func(names ...string) (sum float64) {
		d.stop(os.Interrupt) // the log of the database is in the database then
		for _, name := range names {
			info, err := os.Stat(filepath.Join(d.work, "state", name))
			if err != nil {
				b.Fatal(err)
			}
			sum += float64(info.Size())
		}
		d.start()
		return sum
	}
	record, database := size("audit.jsonl"), size("state.db")
	const calls = 2000
	for range calls {
		d.call(session, "Read", `{"file_path": "f.txt"}`)
	}
	record, database = (size("audit.jsonl")-record)/calls, (size("state.db")-database)/calls
	bench.Value(b, "record", record, "B", 0)
	bench.Value(b, "database", database, "B", 0)
	bench.Value(b, "both", record+database, "B", 1000)
}
