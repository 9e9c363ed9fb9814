package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/tests/pgtest"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// A copy whose database dies says so, and goes on when that is back.
func TestStore_ACopyGoesOnAfterItsDatabaseDied(t *testing.T) {
	tier.Long(t, "PostgreSQL with faults")
	d := newPlaces(t, "")
	d.over("")
	d.start()
	s := d.session()
	d.manyVars(s)
	before := d.everything([]string{s})
	d.stop(os.Interrupt)
	server := pgtest.Start(t)
	state, url := filepath.Join(d.work, "state"), server.Database(t)
	d.mustStores("migrate", url)
	cmd, log := d.stuckCopy(state, url)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(log.String(), "copy scope_vars: the rows from") ||
		!strings.Contains(log.String(), "start the database, and run the same command again") {
		t.Errorf("the database died: %v\n%s", err, log)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	unstuck(t, url)
	if out := d.mustStores("copy", state, url); !strings.Contains(out, "goes on") {
		t.Errorf("the copy did not go on:\n%s", out)
	}
	d.over(url)
	d.start()
	sameAnswers(t, before, d.everything([]string{s}))
}

// A password in an address is refused, and nobody sees it.
func TestStore_APasswordOnTheCommandLineIsRefusedAndNotPrinted(t *testing.T) {
	d := newPlaces(t, "")
	d.over("")
	for _, words := range [][]string{
		{"status", "postgres://u:TOP-SECRET@/x?host=/tmp"},
		{"status", "--json", "postgres://u:TOP-SECRET@h/x"},
		{"migrate", "postgres://u@/x?host=/tmp&password=TOP-SECRET"},
		{"copy", "from", "postgresql://u:TOP-SECRET@h/x"},
		{"copy", "postgres://u:TOP-SECRET@h/x", "to"},
		{"copy", "postgres://u:TOP-SECRET@h/x", "postgres://u:TOP-SECRET@h/y"},
		{"copy", "from", "http://u:TOP-SECRET@h/x"},
		{"status", "postgres://u:TOP-SECRET@[h/x"},
		{"status", "postgres://u:TOP-SECRET%zz@h/x"},
		{"migrate", "postgres:u:TOP-SECRET@h/x"},
		{"copy", "postgres://u@h/x", "host=h password=TOP-SECRET"},
		{"status", "--store-url", "postgres://u:TOP-SECRET@h/x"},
	} {
		out, err := d.stores(words...)
		if err == nil || !strings.Contains(out, "error: ") || strings.Contains(out, "SECRET") {
			t.Errorf("store %s: %v\n%s", strings.Join(words, " "), err, out)
		}
	}
	if left, _ := os.ReadDir(d.ws); len(left) > 0 {
		t.Errorf("they made %v", left)
	}
}

// What an older version left is shown, is not copied, and is brought to this version.
func TestStore_MigrateBringsAnOlderVersionToThisOne(t *testing.T) {
	d := newPlaces(t, "")
	d.unstarted()
	d.over("")
	whole, old := sessions.Schema(), fstest.MapFS{}
	for _, name := range []string{"0001_sessions.sql", "0002_begun.sql", "0003_used.sql"} {
		text, err := fs.ReadFile(whole.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		old[name] = &fstest.MapFile{Data: text}
	}
	state := filepath.Join(d.work, "state")
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(state, "state.db")},
		store.Schema{Name: whole.Name, Files: old})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	url := pgtest.URL(t)
	outdated := regexp.MustCompile(`sessions +3 of 5: sandboxd store migrate`)
	for range 2 { // to look changes nothing
		if out := d.mustStores("status"); !outdated.MatchString(out) {
			t.Errorf("status:\n%s", out)
		}
	}
	d.storeRefuses("sandboxd store migrate brings it up to date", "copy", state, url)
	if out := d.mustStores("migrate"); !strings.Contains(out, "sessions from version 3 to 5\n") {
		t.Errorf("migrate:\n%s", out)
	}
	if out := d.mustStores("migrate"); !strings.Contains(out, "up to date") {
		t.Errorf("migrate again:\n%s", out)
	}
	d.mustStores("copy", state, url)
	d.start()
	d.session()
}
