package scopes

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// The filters of a list walk what they name, not all that the account has.
func TestS31_S32_ListsWalkAnIndex(t *testing.T) {
	storetest.FileOnly(t)
	w := newWorld(t)
	some := func(s string) *string { return &s }
	for _, tt := range []struct {
		name, want string // the index of the keys
		f          filter
		count      string // of the total, "" if it is counted
	}{
		{"all", "scope_vars_by_time (account=?)", filter{orderBy: "v.updated"}, ""},
		{"all by key", "scope_vars_by_key (account=?)", filter{orderBy: "v.key"}, ""},
		{"a scope", "scope_vars_by_scope (account=? AND scope=?)", filter{scope: Chat, orderBy: "v.updated"}, ""},
		{"global", "scope_vars_by_scope (account=? AND scope=?)", filter{scope: Global, orderBy: "v.updated"}, ""},
		{
			"global by key", "scope_vars_identity (account=? AND scope=? AND host=? AND branch=?)",
			filter{scope: Global, orderBy: "v.key"},
			"",
		},
		{
			"a key", "scope_vars_by_key (account=? AND key=?)",
			filter{key: "k", orderBy: "v.updated"},
			"scope_vars_by_key (account=? AND key=?)",
		},
		{
			"a key of a scope", "scope_vars_by_key (account=? AND key=?)",
			filter{scope: Floor, key: "k", orderBy: "v.updated"},
			"scope_vars_by_key (account=? AND key=?)",
		},
		{
			"a key of a host", "scope_vars_identity (account=? AND scope=? AND host=?",
			filter{scope: Chat, host: some("s"), key: "k", orderBy: "v.updated"},
			"scope_vars_identity (account=? AND scope=? AND host=?",
		},
		{
			"a host", "scope_vars_identity (account=? AND scope=? AND host=?)",
			filter{host: some("s"), orderBy: "v.updated"},
			"scope_vars_identity (account=? AND scope=? AND host=?)",
		},
		{
			"a session", "scope_vars_identity (account=? AND scope=? AND host=?)",
			filter{scope: Branch, host: some("s"), orderBy: "v.key"},
			"scope_vars_identity (account=? AND scope=? AND host=?)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.desc, tt.f.limit = true, 50
			count, keys, args := tt.f.queries("a")
			if got := w.plan(t, keys, args); !strings.Contains(got, tt.want) {
				t.Errorf("the keys walk %s", got)
			}
			if tt.count == "" {
				if !strings.Contains(count, "scope_counts") {
					t.Errorf("all are counted: %s", count)
				}
			} else if got := w.plan(t, count, args); !strings.Contains(got, tt.count) {
				t.Errorf("the total walks %s", got)
			}
		})
	}
}

// plan is how the database finds the rows of the first table of a query.
func (w *world) plan(t *testing.T, query string, args []any) string {
	t.Helper()
	var first string
	err := w.db.Read(t.Context(), func(tx *sql.Tx) error {
		var id, parent, unused int
		return tx.QueryRow(`EXPLAIN QUERY PLAN `+query, args...).Scan(&id, &parent, &unused, &first)
	})
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// Deleting a floor looks for its own rows: to delete many does not take the square of their number.
func TestS08_DeletingFloorsWalksIndexes(t *testing.T) {
	storetest.FileOnly(t)
	w := newWorld(t)
	for _, q := range []string{
		`SELECT id FROM scope_floors f WHERE f.session = $1 AND 0 = 0`,
		`SELECT id FROM scope_floors WHERE session = $1 AND parent IN ('x')`,
	} {
		if got := w.plan(t, q, []any{"s"}); !strings.Contains(got, "scope_floors_of_session") {
			t.Errorf("%s walks %s", q, got)
		}
	}
}

// One branch of two is deleted with all that is below it, and nothing of the other.
func TestS08_DeletingABranchLeavesTheOthersWhole(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	before := ""
	for _, branch := range []string{"main", "alt"} {
		var parent string
		for no := range 3 {
			floor := w.floor("s", branch, no)
			w.want(`{"id"`, "PATCH /floors/"+floor, fmt.Sprintf(`{"floor_no":%d}`, no+10))
			if parent != "" {
				w.want(`{"id"`, "PATCH /floors/"+floor, fmt.Sprintf(`{"parent_floor_id":%q}`, parent))
			}
			parent = floor
			page := w.page(floor, 0, "output")
			w.put("floor", floor, "k", "1")
			w.put("page", page, "k", "1")
			w.stage("s", page, `{"key":"j","value":2}`)
			if no < 2 {
				w.want(`{"id"`, "POST /floors/"+floor+"/commit", "")
			}
		}
		if before == "" {
			before = w.dump()
		}
	}
	w.want(`{"branch_id":"alt","session_id":"s","deleted_floor_count":3`, "DELETE /branches/alt?session_id=s", "")
	if got := w.dump(); got != before {
		t.Errorf("left is\n%s\nwant\n%s", got, before)
	}
}

// What an account is said to keep is near to what the database grows by, also where values are tiny or
// there are none.
func TestWhatManySmallThingsTake(t *testing.T) {
	storetest.FileOnly(t)
	w := newWorld(t)
	w.session("session-with-a-name-of-some-length")
	h := handlers{Store: w.Store}
	size := func() (bytes, kept int64) {
		t.Helper()
		if err := w.db.Read(t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes)
		}); err != nil {
			t.Fatal(err)
		}
		for _, all := range []map[string]int64{h.kept(), h.keptGlobal()} {
			for _, n := range all {
				kept += n
			}
		}
		return bytes, kept
	}
	const session = "session-with-a-name-of-some-length"
	floor := w.floor(session, "main", 0)
	page := w.page(floor, 0, "output")
	for _, tt := range []struct {
		name string
		make func(i int)
	}{
		{"global variables", func(i int) { w.put("global", "global", fmt.Sprint("k", i), "1") }},
		{"page variables", func(i int) { w.put("page", page, fmt.Sprint("k", i), "1") }},
		{"floors", func(i int) { w.floor(session, "main", i+1) }},
		{"branches", func(i int) { w.do("POST /sessions/"+session+"/branches", fmt.Sprintf(`{"branch_id":"b%d"}`, i)) }},
		{"pages", func(i int) { w.page(floor, i+1, "input") }},
		{"staged writes", func(i int) { w.stage(session, page, `{"key":"k","value":1}`) }},
	} {
		bytes, kept := size()
		for i := range 500 {
			tt.make(i)
		}
		moreBytes, moreKept := size()
		took, said := moreBytes-bytes, moreKept-kept
		t.Logf("500 %s: %d bytes, said are %d", tt.name, took, said)
		if took < 50_000 || said < took*2/3 || said > took*5 {
			t.Errorf("500 %s took %d bytes of the database, said are %d", tt.name, took, said)
		}
	}
}
