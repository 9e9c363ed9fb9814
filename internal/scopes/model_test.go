package scopes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// model is what the store must be, as plain maps. A host is "chat", "branch NAME", a floor or a page.
type model struct {
	vars     map[string]map[string]string // by host and key, with "!" in front if a staged write made it
	branches []string
	floors   map[string]*modelFloor
	pages    map[string]*modelPage
	order    []string // of floors and pages, as they were made
}

type modelFloor struct {
	branch   string
	no       int
	state    string
	snapshot map[string]string
}

type modelPage struct {
	floor, kind string
	no          int
	active      bool
	decision    string
	staged      []modelWrite
}

type modelWrite struct {
	at               int
	key, value       string
	pageOnly, absent bool
	status           string
}

func (m *model) put(host, key, value string) {
	if m.vars[host] == nil {
		m.vars[host] = map[string]string{}
	}
	m.vars[host][key] = value
}

// settle is the resolution of staged writes in one screen.
func (m *model) settle(floor string, only string) {
	type row struct {
		page string
		i    int
	}
	var rows []row
	for id, p := range m.pages {
		for i, w := range p.staged {
			if p.floor == floor && w.status == "staged" && (only == "" || only == id) {
				rows = append(rows, row{id, i})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return m.pages[a.page].staged[a.i].at - m.pages[b.page].staged[b.i].at })
	for _, r := range rows {
		p := m.pages[r.page]
		w := &p.staged[r.i]
		_, has := m.vars[floor][w.key]
		switch {
		case p.decision == "reject":
			w.status = "rejected page_rejected"
		case p.kind != "output":
			w.status = "rejected page_commit_gate_source_page_not_output"
		case !p.active && p.decision != "accept":
			w.status = "discarded page_not_active_at_commit"
		case w.pageOnly:
			m.put(r.page, w.key, "!"+w.value)
			w.status = "accepted_page_only"
		case w.absent && has:
			m.put(r.page, w.key, "!"+w.value)
			w.status = "accepted_page_only promotion_skipped_if_absent"
		default:
			m.put(r.page, w.key, "!"+w.value)
			m.put(floor, w.key, w.value)
			w.status = "promoted"
		}
	}
}

// TestFiveScopesAgainstAModel does random histories of floors, pages and branches, and compares what
// every place shows.
func TestFiveScopesAgainstAModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		defer w.db.Close() // not a hundred of them at the end
		w.session("s")
		m := &model{vars: map[string]map[string]string{}, branches: []string{"main"}, floors: map[string]*modelFloor{}, pages: map[string]*modelPage{}}
		for at := range rapid.IntRange(1, 40).Draw(r, "steps") {
			m.step(r, w, at)
		}
		m.compare(r, w)
	})
}

// some draws one of these that a condition holds for; "" if there is none.
func (m *model) some(r *rapid.T, what string, is func(string) bool) string {
	all := slices.DeleteFunc(slices.Clone(m.order), func(id string) bool { return !is(id) })
	if len(all) == 0 {
		return ""
	}
	return rapid.SampledFrom(all).Draw(r, what)
}

func (m *model) step(r *rapid.T, w *world, at int) {
	isFloor := func(id string) bool { return m.floors[id] != nil }
	isPage := func(id string) bool { return m.pages[id] != nil }
	locked := func(id string) bool { s := m.floors[id].state; return s == "committed" || s == "generating" }
	key, value := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "key"), fmt.Sprint(at)
	switch act := rapid.IntRange(0, 13).Draw(r, "act"); act {
	case 0:
		name := fmt.Sprintf("b%d", rapid.IntRange(0, 2).Draw(r, "branch"))
		want := "created"
		if slices.Contains(m.branches, name) {
			want = "branch_exists"
		} else {
			m.branches = append(m.branches, name)
		}
		w.want(want, "POST /sessions/s/branches", fmt.Sprintf(`{"branch_id":%q}`, name))
	case 1, 2:
		branch, no := rapid.SampledFrom(m.branches).Draw(r, "on"), rapid.IntRange(0, 3).Draw(r, "no")
		for _, f := range m.floors {
			if f.branch == branch && f.no == no {
				w.want("constraint_error", "POST /floors", fmt.Sprintf(`{"session_id":"s","branch_id":%q,"floor_no":%d}`, branch, no))
				return
			}
		}
		id := w.floor("s", branch, no)
		m.floors[id], m.order = &modelFloor{branch: branch, no: no, state: "draft"}, append(m.order, id)
	case 3, 4:
		f := m.some(r, "floor", isFloor)
		if f == "" || m.floors[f].state == "committed" {
			return
		}
		p := &modelPage{floor: f, kind: rapid.SampledFrom([]string{"output", "output", "input"}).Draw(r, "kind"), no: rapid.IntRange(0, 1).Draw(r, "slot"), active: true}
		version := 1
		for _, other := range m.pages {
			if other.floor == f && other.no == p.no {
				version, p.active = version+1, p.active && !other.active
			}
		}
		id := w.id("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":%d,"page_kind":%q,"version":%d}`, f, p.no, p.kind, version+10*at))
		m.pages[id], m.order = p, append(m.order, id)
	case 5, 6, 7:
		m.write(r, w, key, value, isFloor, isPage, locked)
	case 8, 9:
		p := m.some(r, "page", isPage)
		if p == "" {
			return
		}
		x := modelWrite{at: at, key: key, value: value, status: "staged", pageOnly: rapid.Bool().Draw(r, "page only"), absent: rapid.Bool().Draw(r, "if absent")}
		args := fmt.Sprintf(`{"key":%q,"value":%s,"intent":%q,"conflict_policy":%q}`, key, value,
			map[bool]string{true: "page_only", false: "promote_to_floor_on_accept"}[x.pageOnly], map[bool]string{true: "if_absent", false: "replace"}[x.absent])
		if s := m.floors[m.pages[p].floor].state; s == "committed" || s == "failed" {
			if got := w.call("set_variable", "s", p, args); got != "variable_target_locked" {
				r.Errorf("staging for a floor that is %s: %s", s, got)
			}
			return
		}
		w.stage("s", p, args)
		m.pages[p].staged = append(m.pages[p].staged, x)
	case 10, 11:
		p := m.some(r, "page", isPage)
		if p == "" {
			return
		}
		said, x := rapid.SampledFrom([]string{"accept", "reject"}).Draw(r, "said"), m.pages[p]
		want := "{"
		switch {
		case m.floors[x.floor].state == "committed":
			want = "content_target_locked"
		case x.decision != "" && x.decision != said:
			want = "invalid_state"
		}
		w.want(want, "POST /pages/"+p+"/"+said, "")
		if want == "{" && x.decision == "" {
			x.decision = said
			m.settle(x.floor, p)
		}
	case 12:
		p := m.some(r, "page", isPage)
		if p == "" || m.pages[p].kind == "input" {
			return
		}
		w.want("{", "PATCH /pages/"+p+"/activate", "")
		for _, other := range m.pages {
			if other.floor == m.pages[p].floor && other.no == m.pages[p].no {
				other.active = false
			}
		}
		m.pages[p].active = true
	case 13:
		m.move(r, w, isFloor)
	}
}

// write writes a variable to any place.
func (m *model) write(r *rapid.T, w *world, key, value string, isFloor, isPage, locked func(string) bool) {
	host, scope, id, want := "", rapid.SampledFrom([]string{"global", "chat", "branch", "floor", "page"}).Draw(r, "scope"), "", ""
	switch scope {
	case "global":
		host, id = "global", "global"
	case "chat":
		host, id = "chat", "s"
	case "branch":
		b := rapid.SampledFrom(m.branches).Draw(r, "of")
		host, id = "branch "+b, "branch:s:"+b
	case "floor":
		if host = m.some(r, "to", isFloor); host == "" {
			return
		}
		id = host
		if locked(host) {
			want = "variable_target_locked"
		}
	case "page":
		if host = m.some(r, "to", isPage); host == "" {
			return
		}
		id = host
		if locked(m.pages[host].floor) {
			want = "variable_target_locked"
		}
	}
	if got := w.put(scope, id, key, value); !strings.HasPrefix(strings.TrimPrefix(got, "created "), cmp.Or(want, "{")) {
		r.Errorf("a write to %s: %s, want %s", host, got, want)
	}
	if want == "" {
		m.put(host, key, value)
	}
}

// move moves a floor to another state.
func (m *model) move(r *rapid.T, w *world, isFloor func(string) bool) {
	id := m.some(r, "floor", isFloor)
	if id == "" {
		return
	}
	f, act := m.floors[id], rapid.SampledFrom([]string{"generate", "fail", "commit", "commit"}).Draw(r, "move")
	from := map[string]string{"generate": "draft failed", "fail": "draft generating", "commit": "draft generating"}[act]
	if !strings.Contains(from, f.state) {
		w.want("invalid_state", "POST /floors/"+id+"/"+act, "")
		return
	}
	w.want("{", "POST /floors/"+id+"/"+act, "")
	switch act {
	case "generate":
		f.state = "generating"
	case "fail":
		f.state = "failed"
		for _, p := range m.pages {
			for i := range p.staged {
				if p.floor == id && p.staged[i].status == "staged" {
					p.staged[i].status = "discarded floor_failed"
				}
			}
		}
	case "commit":
		f.state = "committed"
		m.settle(id, "")
		for _, p := range m.order {
			x := m.pages[p]
			if x == nil || x.floor != id || x.kind != "output" || x.decision == "reject" || !x.active && x.decision != "accept" {
				continue
			}
			for key, value := range m.vars[p] {
				if !strings.HasPrefix(value, "!") {
					m.put(id, key, value)
				}
			}
		}
		f.snapshot = map[string]string{}
		maps.Copy(f.snapshot, m.vars["chat"])
		maps.Copy(f.snapshot, m.vars["branch "+f.branch])
	}
}

// compare looks from everywhere.
func (m *model) compare(r *rapid.T, w *world) {
	look := func(at, query string, hosts ...string) {
		for _, key := range []string{"a", "b"} {
			want := ""
			for _, h := range hosts { // the strongest first
				if v, ok := m.vars[h][key]; ok {
					scope, _, _ := strings.Cut(h, " ")
					switch {
					case m.floors[h] != nil:
						scope = "floor"
					case m.pages[h] != nil:
						scope = "page"
					}
					want = strings.TrimPrefix(v, "!") + " of " + scope
					break
				}
			}
			if got := w.holds("session_id=s"+query, key); got != want {
				r.Errorf("%s sees %s = %q, want %q", at, key, got, want)
			}
		}
	}
	look("the session", "", "chat", "global")
	for _, b := range m.branches {
		look(b, "&branch_id="+b, "branch "+b, "chat", "global")
	}
	for id, f := range m.floors {
		look("a floor", "&floor_id="+id, id, "branch "+f.branch, "chat", "global")
		got := w.do("POST /sessions/s/prompt-runtime/preview", fmt.Sprintf(`{"text":"{{.a}},{{.b}}","source_floor_id":%q}`, id))
		want := "branch_local_snapshot_missing"
		if f.snapshot != nil {
			want = fmt.Sprintf(`"text":"%s,%s"`, f.snapshot["a"], f.snapshot["b"])
		}
		if !strings.Contains(got, want) {
			r.Errorf("from a floor that is %s: %s, want %s", f.state, got, want)
		}
	}
	for id, p := range m.pages {
		look("a page", "&page_id="+id, id, p.floor, "branch "+m.floors[p.floor].branch, "chat", "global")
		var want []string
		promoted := 0
		for _, x := range p.staged {
			want = append(want, x.status)
			if x.status == "promoted" {
				promoted++
			}
		}
		if got := w.status(id); got != strings.Join(want, ", ") {
			r.Errorf("the ledger of a page says %s, want %s", got, strings.Join(want, ", "))
		}
		for _, x := range w.items(id, "promotions") {
			if x["staged_write_id"] != nil {
				promoted--
			}
		}
		if promoted != 0 {
			r.Errorf("%d promotions too few", promoted)
		}
	}
	n := 0
	for _, vars := range m.vars {
		n += len(vars)
	}
	if got := w.do("GET /variables?limit=1", ""); !strings.HasPrefix(got, fmt.Sprint(n, " [")) {
		r.Errorf("%d variables, listed are %s", n, got)
	}
}
