package vars_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/vars"
)

// The benchmarks report a ratio beside the time: what we cost in units of the
// plainest way to do the same.

func benchDB(b *testing.B, extra ...store.Schema) *store.DB {
	b.Helper()
	db, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "s.db")}, append(extra, vars.Schema())...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

// timed is the fastest of several rounds: the rest is the machine's noise.
func timed(rounds int, fn func()) time.Duration {
	best := time.Duration(1 << 62)
	for range rounds {
		start := time.Now()
		fn()
		best = min(best, time.Since(start))
	}
	return best
}

func words(n int) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", r.Uint64()>>uint(r.IntN(60)))
	}
	return b.String()[:n]
}

func BenchmarkResolve1000References(b *testing.B) {
	s := vars.New(benchDB(b), vars.Options{})
	var text strings.Builder
	var pairs []string
	for i := range 1000 {
		name := fmt.Sprintf("v%d", i%50)
		value := fmt.Sprintf("value of %s", name)
		if i < 50 {
			if _, _, err := s.Put(b.Context(), "s", name, vars.Change{Value: &value}, tool.OriginPerson); err != nil {
				b.Fatal(err)
			}
			pairs = append(pairs, "$VAR_REF{{"+name+"}}", value)
		}
		text.WriteString(words(1000) + "$VAR_REF{{" + name + "}}")
	}
	in := text.String()
	args, err := json.Marshal(map[string]string{"command": in})
	if err != nil {
		b.Fatal(err)
	}
	replacer := strings.NewReplacer(pairs...)
	plain := timed(20, func() { replacer.Replace(in) })
	b.SetBytes(int64(len(args)))
	best := time.Duration(1 << 62)
	for b.Loop() {
		best = min(best, timed(1, func() {
			if _, _, err := s.Resolve(b.Context(), "s", args); err != nil {
				b.Fatal(err)
			}
		}))
	}
	b.ReportMetric(float64(best)/float64(plain), "x-replacer")
}

func BenchmarkResolveWithoutReference(b *testing.B) {
	for _, size := range []int{100, 8 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := vars.New(benchDB(b), vars.Options{})
			args, _ := json.Marshal(map[string]string{"command": words(size)})
			for b.Loop() {
				if _, _, err := s.Resolve(b.Context(), "s", args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkShingles8KBAgainst5MB(b *testing.B) {
	s := vars.New(benchDB(b), vars.Options{})
	args, _ := json.Marshal(map[string]string{"command": words(8 << 10)})
	resolve := func() {
		if _, _, err := s.Resolve(b.Context(), "s", args); err != nil {
			b.Fatal(err)
		}
	}
	resolve()
	before := timed(50, resolve)
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		page := make([]byte, 100_000)
		for i := range page {
			page[i] = byte('a' + r.IntN(26))
		}
		c := tool.NewCall(tool.Request{Session: "s", Tool: "WebFetch", Args: json.RawMessage(`{}`)})
		c.Spec, c.Result.FormattedText = fetch, string(page)
		if err := s.Remember(b.Context(), c, false); err != nil {
			b.Fatal(err)
		}
	}
	build := timed(1, resolve)
	best := time.Duration(1 << 62)
	for b.Loop() {
		best = min(best, timed(1, resolve))
	}
	b.ReportMetric(float64((best - before).Microseconds()), "added-µs")
	b.ReportMetric(float64(build.Microseconds()), "first-µs")
}

func BenchmarkInsertAtCapacity(b *testing.B) {
	per := func(b *testing.B, capacity int) time.Duration {
		s := vars.New(benchDB(b), vars.Options{Capacity: capacity})
		value := words(200)
		n := 0
		add := func() {
			n++
			if _, _, err := s.Put(b.Context(), "s", fmt.Sprintf("name%d", n), vars.Change{Value: &value}, tool.OriginPerson); err != nil {
				b.Fatal(err)
			}
		}
		for range capacity {
			add()
		}
		return timed(20, func() {
			for range 200 {
				add()
			}
		}) / 200
	}
	for b.Loop() {
		small, large := per(b, 1000), per(b, 100_000)
		b.ReportMetric(float64(small.Nanoseconds()), "ns/1000")
		b.ReportMetric(float64(large.Nanoseconds()), "ns/100000")
		b.ReportMetric(float64(large)/float64(small), "ratio")
	}
}

var bare = store.Schema{Name: "bare", Files: bareFiles}

func bareInsert(ctx context.Context, db *sql.DB, name string, value []byte) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO bare (name, value) VALUES ($1, $2)`, name, value); err != nil {
		return err
	}
	return tx.Commit()
}

// driver opens the same kind of database through database/sql and nothing else.
func driver(b *testing.B, sync string) *sql.DB {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bare.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous("+sync+")")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if _, err := db.Exec(`CREATE TABLE bare (name TEXT PRIMARY KEY, value BLOB)`); err != nil {
		b.Fatal(err)
	}
	return db
}

func BenchmarkRemember(b *testing.B) {
	for _, sync := range []string{"normal", "full"} {
		b.Run(sync, func(b *testing.B) {
			raw := driver(b, sync)
			db, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "s.db"), Sync: sync}, vars.Schema())
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			s := vars.New(db, vars.Options{})
			result := words(2000)
			n := 0
			plain := func() {
				n++
				if err := bareInsert(b.Context(), raw, fmt.Sprintf("Bash_20260102030405-%010d_result", n), []byte(result)); err != nil {
					b.Fatal(err)
				}
			}
			ours := func() {
				c := tool.NewCall(tool.Request{Session: "s", Tool: "Bash", Args: json.RawMessage(`{"command":"go test ./..."}`)})
				c.Result.FormattedText = result
				if err := s.Remember(b.Context(), c, false); err != nil {
					b.Fatal(err)
				}
			}
			for range 1200 { // at capacity
				plain()
				ours()
			}
			repeat := func(fn func()) func() {
				return func() {
					for range 50 {
						fn()
					}
				}
			}
			for b.Loop() {
				p, o := timed(10, repeat(plain)), timed(10, repeat(ours))
				b.ReportMetric(float64(p.Microseconds())/50, "bare-µs")
				b.ReportMetric(float64(o.Microseconds())/50, "ours-µs")
				b.ReportMetric(float64(o)/float64(p), "ratio")
			}
		})
	}
}

func BenchmarkSixteenWriters(b *testing.B) {
	const writers, each = 16, 100
	together := func(write func(i int) error) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if err := write(w*each + i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	for _, sync := range []string{"normal", "full"} {
		b.Run(sync, func(b *testing.B) {
			raw := driver(b, sync)
			db, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "s.db"), Sync: sync}, vars.Schema(), bare)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			value := []byte(words(200))
			round := 0
			for b.Loop() {
				round++
				name := func(i int) string { return fmt.Sprintf("%d-%d", round, i) }
				plain := together(func(i int) error { return bareInsert(b.Context(), raw, name(i), value) })
				ours := together(func(i int) error {
					return db.Write(b.Context(), func(tx *sql.Tx) error {
						_, err := tx.Exec(`INSERT INTO bare (name, value) VALUES ($1, $2)`, name(i), value)
						return err
					})
				})
				b.ReportMetric(writers*each/plain.Seconds(), "bare-writes/s")
				b.ReportMetric(writers*each/ours.Seconds(), "our-writes/s")
				b.ReportMetric(float64(plain)/float64(ours), "ratio")
			}
		})
	}
}

var bareFiles = fstest.MapFS{"0001_bare.sql": {Data: []byte(`CREATE TABLE bare (name TEXT PRIMARY KEY, value BLOB)`)}}
