package vars_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// A large value has a row of its own as long as its variable is there, whatever ends it.
func TestALargeValueGoesWithItsVariable(t *testing.T) {
	large := strings.Repeat("é", 40<<10)
	put := func(f *fixture) { f.put("big", large) }
	change := func(c vars.Change) func(*fixture) {
		return func(f *fixture) {
			if _, _, err := f.Update(f.t.Context(), "s", "big", c, tool.OriginPerson); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		does func(*fixture)
		want int
	}{
		"stored":                 {func(*fixture) {}, 1},
		"visited":                {func(f *fixture) { f.get("big") }, 1},
		"another description":    {change(vars.Change{Desc: ptr("what it is")}), 1},
		"another large value":    {change(vars.Change{Value: ptr(large + "x")}), 1},
		"the same value":         {put, 1},
		"a small value":          {change(vars.Change{Value: ptr("x")}), 0},
		"the largest in the row": {change(vars.Change{Value: ptr(strings.Repeat("x", 64<<10))}), 0},
		"removed": {func(f *fixture) {
			if _, _, err := f.Remove(f.t.Context(), "s", []string{"big"}); err != nil {
				f.t.Fatal(err)
			}
		}, 0},
		"the session is deleted": {(*fixture).deleteSession, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, vars.Options{})
			put(f)
			c.does(f)
			f.onlyLarge(c.want)
		})
	}
}

// A large value is read as any other: whole, in pieces, in part, by a reference, and in what a session keeps.
func TestALargeValueIsReadAsAnyOther(t *testing.T) {
	f := newFixture(t, vars.Options{})
	large := strings.Repeat("é", 100<<10) + "end"
	f.put("small", "x")
	before, err := f.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.put("large", large)
	if v, ok := f.get("large"); !ok || *v.Value != large {
		t.Errorf("read: %t, %d bytes", ok, len(*v.Value))
	}
	if got := f.mustCall("ReadVar", `{"name":"large"}`).Text; got != large {
		t.Errorf("ReadVar: %d bytes", len(got))
	}
	if got, err := f.resolve(`"$VAR_REF{{large:102399:9}}"`); err != nil || got != `"éend"` {
		t.Errorf("a slice: %s, %v", got, err)
	}
	if got, err := f.resolve(`"$VAR_REF{{large}}"`); err != nil || got != `"`+large+`"` {
		t.Errorf("the whole: %d bytes, %v", len(got), err)
	}
	after, err := f.Kept(t.Context())
	if want := int64(len(large) + 2*len("large") + 1); err != nil || after["s"]-before["s"] < int64(len(large)) ||
		after["s"]-before["s"] > want {
		t.Errorf("it keeps %d bytes more, %v, want %d at most", after["s"]-before["s"], err, want)
	}
}

// A database from before gives each value as it did, and its large ones get rows of their own.
func TestLargeValuesFromBefore(t *testing.T) {
	storetest.FileOnly(t)
	path := filepath.Join(t.TempDir(), "s.db")
	files := fstest.MapFS{}
	names, err := filepath.Glob("migrations/000[1-6]_*.sql")
	if err != nil || len(names) != 6 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = &fstest.MapFile{Data: text}
	}
	db, err := store.Open(t.Context(), store.Options{Path: path}, store.Schema{Name: "vars", Files: files})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"small": "x", "most": strings.Repeat("m", 64<<10), "large": strings.Repeat("l", 64<<10+1),
		"larger": strings.Repeat("é", 1<<20), "gone": strings.Repeat("g", 100<<10),
	}
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		for name, value := range values {
			_, err := tx.Exec(`INSERT INTO vars (session, name, type, keep, created, updated, visited, refs, length, authored,
				origins, hosts, tags, descr, folded, value) VALUES ('s', $1, 'USER_ADD', 0, 1, 2, 3, 4, $2, 1, 1, '', '', '', $1, $3)`,
				name, len([]rune(value)), []byte(value))
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(`DELETE FROM vars WHERE name = 'gone'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	delete(values, "gone")
	f := openFixture(t, path, vars.Options{})
	f.onlyLarge(2)
	for name, want := range values {
		v, ok := f.get(name)
		if !ok || *v.Value != want || v.Length != len([]rune(want)) || v.ReferenceCount != 5 {
			t.Errorf("%s: %t, %d characters, %d visits", name, ok, v.Length, v.ReferenceCount)
		}
	}
	f.put("larger", "small now")
	f.put("new", strings.Repeat("n", 70<<10))
	f.onlyLarge(2)
}
