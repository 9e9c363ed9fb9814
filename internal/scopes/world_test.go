package scopes

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// world is the routes over a database, as account "a".
type world struct {
	t testing.TB
	*Store
	routes   []route.Route
	sessions *sessions.Store
	tools    map[string]tool.Tool
	notes    []tool.Note
	uses     []string // the sessions that count as used
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db, err := storetest.At(context.Background(), t, filepath.Join(t.TempDir(), "s.db"),
		sessions.Schema(), Definition().Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	local, err := store.Open(context.Background(), store.Options{Path: ":memory:"}, sessions.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	w := &world{t: t, Store: New(db), sessions: sessions.New(db, sessions.Options{Local: local}), tools: map[string]tool.Tool{}}
	used := func(session string) { w.uses = append(w.uses, session) }
	p := w.Part(part.Host{DB: db, Used: used, Record: func(_ context.Context, n tool.Note) error {
		w.notes = append(w.notes, n)
		return nil
	}})
	w.routes = p.Routes
	w.sessions.Attach(p)
	for _, x := range p.Groups[0].Tools {
		w.tools[x.Spec().Name] = x
	}
	return w
}

func (w *world) session(id string) {
	w.t.Helper()
	w.sessionOf("a", id)
}

func (w *world) sessionOf(account, id string) {
	w.t.Helper()
	if _, err := w.sessions.Create(w.t.Context(), tool.Session{ID: id, Account: account, Dir: "/"}); err != nil {
		w.t.Fatal(err)
	}
}

// do sends "METHOD /path" with a body, and returns the answer as routetest has it.
func (w *world) do(line, body string) string {
	w.t.Helper()
	return routetest.Call(w.t, w.routes, tool.RoleAgent, line, body)
}

// want fails unless the answer begins with a code, or with what is given.
func (w *world) want(begins, line, body string) string {
	w.t.Helper()
	got := w.do(line, body)
	if !strings.HasPrefix(got, begins) {
		w.t.Errorf("%s %s\n  got %s\n want %s…", line, clip(body), clip(got), begins)
	}
	return got
}

// made does what must succeed, and returns the answer's fields.
func (w *world) made(line, body string) map[string]any {
	w.t.Helper()
	got := strings.TrimPrefix(w.do(line, body), "created ")
	if i := strings.IndexByte(got, '['); i >= 0 && i < 9 && got[0] != '{' {
		got = `{"list": ` + got[i:] + `}`
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		w.t.Fatalf("%s %s: %s", line, body, got)
	}
	return m
}

// id makes something and returns its id.
func (w *world) id(line, body string) string {
	w.t.Helper()
	return w.made(line, body)["id"].(string)
}

func (w *world) floor(session, branch string, no int) string {
	w.t.Helper()
	return w.id("POST /floors", fmt.Sprintf(`{"session_id":%q,"branch_id":%q,"floor_no":%d}`, session, branch, no))
}

func (w *world) page(floor string, no int, kind string) string {
	w.t.Helper()
	return w.id("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":%d,"page_kind":%q}`, floor, no, kind))
}

// put writes a variable.
func (w *world) put(scope, id, key, value string) string {
	w.t.Helper()
	return w.do("PUT /variables", fmt.Sprintf(`{"scope":%q,"scope_id":%q,"key":%q,"value":%s}`, scope, id, key, value))
}

// holds is the value of a key at a place, with its scope: "1 of chat"; "" if there is none.
func (w *world) holds(query, key string) string {
	w.t.Helper()
	for _, x := range w.made("GET /variables/resolve?"+query, "")["resolved"].([]any) {
		if x := x.(map[string]any); x["key"] == key {
			value, err := json.Marshal(x["value"])
			if err != nil {
				w.t.Fatal(err)
			}
			return string(value) + " of " + x["source_scope"].(string)
		}
	}
	return ""
}

// call runs a tool for a page of a session, and returns its text or its code.
func (w *world) call(name, session, page, args string) string {
	w.t.Helper()
	out, err := w.run(name, tool.In{Account: "a", Session: session, Host: tool.Host{Page: page}, Args: json.RawMessage(args)})
	if e, ok := err.(*tool.Error); ok {
		return e.Code
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Text
}

func (w *world) run(name string, in tool.In) (tool.Output, error) {
	var none sandbox.Box
	return w.tools[name].Run(w.t.Context(), in, none)
}

// stage stages a write that must be taken.
func (w *world) stage(session, page, args string) {
	w.t.Helper()
	if got := w.call("set_variable", session, page, args); !strings.HasPrefix(got, "Variable ") {
		w.t.Fatalf("set_variable %s: %s", args, got)
	}
}

// items of the ledger or of the traces of a page.
func (w *world) items(page, face string) []map[string]any {
	w.t.Helper()
	var all []map[string]any
	for _, x := range w.made("GET /pages/"+page+"/variables/"+face, "")["items"].([]any) {
		all = append(all, x.(map[string]any))
	}
	return all
}

// status of the rows of a page: "promoted", or "rejected page_rejected".
func (w *world) status(page string) string {
	w.t.Helper()
	var all []string
	for _, x := range w.items(page, "staged") {
		s := x["status"].(string)
		if why, ok := x["decision_reason"].(string); ok {
			s += " " + why
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

// dump is all that the tables hold.
func (w *world) dump() string {
	w.t.Helper()
	var b strings.Builder
	err := w.db.Read(w.t.Context(), func(tx *sql.Tx) error {
		for _, table := range []string{"branches", "floors", "pages", "vars", "counts", "snapshots", "staged", "promotions"} {
			rows, err := tx.Query(`SELECT * FROM scope_` + table + ` ORDER BY 1, 2`)
			if err != nil {
				return err
			}
			names, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				cells := make([]any, len(names))
				for i := range cells {
					cells[i] = new(sql.NullString)
				}
				if err := rows.Scan(cells...); err != nil {
					return err
				}
				b.WriteString(table)
				for _, c := range cells {
					b.WriteString("|" + c.(*sql.NullString).String)
				}
				b.WriteByte('\n')
			}
			if err := rows.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}
