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

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/tests/bench"
)

func benchDB(b *testing.B, extra ...store.Schema) *store.DB {
	b.Helper()
	db, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "s.db")},
		append(extra, vars.Schema())...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
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
	bench.Compare(b, []bench.Case{
		{Name: "strings.Replacer", Run: func() { replacer.Replace(in) }},
		{Name: "resolve", Run: func() {
			if _, _, err := s.Resolve(b.Context(), "s", args); err != nil {
				b.Fatal(err)
			}
		}},
	}, bench.Limit{Case: "resolve", Over: "strings.Replacer", AtMost: 3})
}

func BenchmarkInsertAtCapacity(b *testing.B) {
	var cases []bench.Case
	for _, capacity := range []int{1000, 100_000} {
		s := vars.New(benchDB(b), vars.Options{Capacity: capacity})
		value := words(200)
		n := 0
		add := func() {
			n++
			if _, _, err := s.Put(b.Context(), "s", fmt.Sprintf("name%d", n), vars.Change{Value: &value},
				tool.OriginPerson); err != nil {
				b.Fatal(err)
			}
		}
		for range capacity {
			add()
		}
		cases = append(cases, bench.Case{Name: fmt.Sprint("capacity ", capacity), Run: add, N: 1000})
	}
	bench.Compare(b, cases, bench.Limit{Case: "capacity 100000", Over: "capacity 1000", AtMost: 1.5})
}

// A visit costs the same, however large the value.
func BenchmarkVisit(b *testing.B) {
	s := vars.New(benchDB(b), vars.Options{})
	var cases []bench.Case
	for name, size := range map[string]int{"1 KiB": 1 << 10, "8 MiB": 8 << 20} {
		value := strings.Repeat("x", size)
		if _, _, err := s.Put(b.Context(), "s", name, vars.Change{Value: &value}, tool.OriginPerson); err != nil {
			b.Fatal(err)
		}
		cases = append(cases, bench.Case{Name: name, Run: func() {
			if _, _, ok, err := s.Read(b.Context(), "s", name); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}})
	}
	bench.Compare(b, cases, bench.Limit{Case: "8 MiB", Over: "1 KiB", AtMost: 1.5})
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
	db, err := sql.Open("sqlite", "file:"+path+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous("+sync+")")
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
				if err := bareInsert(b.Context(), raw, fmt.Sprintf("Bash_20260102030405-%010d_result", n),
					[]byte(result)); err != nil {
					b.Fatal(err)
				}
			}
			ours := func() {
				c := tool.NewCall(tool.Request{
					Session: "s", Tool: "Bash", Args: json.RawMessage(`{"command":"go test ./..."}`),
				})
				c.Result.FormattedText = result
				if err := s.Remember(b.Context(), c, false); err != nil {
					b.Fatal(err)
				}
			}
			for range 1200 { // at capacity
				plain()
				ours()
			}
			bench.Compare(b, []bench.Case{
				{Name: "bare transaction", Run: plain, N: 1000},
				{Name: "remember", Run: ours, N: 1000},
			}, bench.Limit{Case: "remember", Over: "bare transaction", AtMost: 2.5})
		})
	}
}

// BenchmarkSixteenWriters writes acknowledged rows from 16 clients at once. The
// rate is at least half of the driver's where our time is at most twice its.
func BenchmarkSixteenWriters(b *testing.B) {
	const writers, each = 16, 20
	together := func(write func(i int) error) {
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
			name := func(i int) string { return fmt.Sprintf("%d-%d", round, i) }
			bench.Compare(b, []bench.Case{
				{Name: "driver", Run: func() {
					round++
					together(func(i int) error { return bareInsert(b.Context(), raw, name(i), value) })
				}, N: 21},
				{Name: "store", Run: func() {
					round++
					together(func(i int) error {
						return db.Write(b.Context(), func(tx *sql.Tx) error {
							_, err := tx.Exec(`INSERT INTO bare (name, value) VALUES ($1, $2)`, name(i), value)
							return err
						})
					})
				}, N: 21},
			}, bench.Limit{Case: "store", Over: "driver", AtMost: 2})
		})
	}
}

var bareFiles = fstest.MapFS{"0001_bare.sql": {Data: []byte(`CREATE TABLE bare (name TEXT PRIMARY KEY, value BLOB)`)}}
