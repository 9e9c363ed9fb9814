package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// parameters tries the parameters of queries.
type parameters struct {
	scoped
	t     *testing.T
	tried map[string]bool // "GET /jobs session_id"
}

// get is the answer to a request; items are those of a list, or of the field items.
func (p parameters) get(path, query string) (answer string, items []string) {
	p.t.Helper()
	if query != "" {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + query
	}
	status, answer := p.send(http.MethodGet, path, "")
	if status != http.StatusOK {
		p.t.Errorf("GET %s: %d %s", path, status, answer)
	}
	var list struct{ Data []json.RawMessage }
	if json.Unmarshal([]byte(answer), &list) == nil {
		for _, item := range list.Data {
			items = append(items, string(item))
		}
	}
	return answer, items
}

// some tries a parameter that leaves n of the items of a list.
func (p parameters) some(route, path, param, value string, n int) {
	p.t.Helper()
	p.tried[route+" "+param] = true
	_, all := p.get(path, "")
	if answer, few := p.get(path, param+"="+value); len(few) != n || len(all) <= n {
		p.t.Errorf("%s has %d items, with %s=%s %d, want %d: %s", path, len(all), param, value, len(few), n, answer)
	}
}

// pages tries limit and offset.
func (p parameters) pages(route, path string) {
	p.t.Helper()
	p.tried[route+" limit"], p.tried[route+" offset"] = true, true
	_, all := p.get(path, "limit=100")
	_, first := p.get(path, "limit=1")
	_, second := p.get(path, "limit=1&offset=1")
	if len(all) < 2 || !slices.Equal(first, all[:1]) || !slices.Equal(second, all[1:2]) {
		p.t.Errorf("%s: %d items %v; the first is %v, the second %v", path, len(all), all, first, second)
	}
}

// sorts tries the order by a key, which the two items have from low to high.
func (p parameters) sorts(route, path, by, low, high string) {
	p.t.Helper()
	p.tried[route+" sort_by"], p.tried[route+" sort_order"] = true, true
	for order, want := range map[string][]string{"asc": {low, high}, "desc": {high, low}} {
		answer, items := p.get(path, "sort_by="+by+"&sort_order="+order)
		if len(items) != 2 || !strings.Contains(items[0], want[0]) || !strings.Contains(items[1], want[1]) {
			p.t.Errorf("%s by %s, %s: %s", path, by, order, answer)
		}
	}
}

// says tries a parameter with which alone the answer holds a text.
func (p parameters) says(route, path, param, value, text string) {
	p.t.Helper()
	p.tried[route+" "+param] = true
	with, _ := p.get(path, param+"="+value)
	if without, _ := p.get(path, ""); !strings.Contains(with, text) || strings.Contains(without, text) {
		p.t.Errorf("GET %s with %s=%s: %s; without: %s; want %s in the first alone", path, param, value, with, without, text)
	}
}

// Each parameter of a query that the specification names has its effect.
func TestEachParameterOfAQueryHasItsEffect(t *testing.T) {
	next, err := newDir(bin, "next-")
	if err == nil {
		err = os.WriteFile(filepath.Join(next, "next.rego"), []byte("package sandboxd.policies.acme.next\n\n"+
			`findings contains {"id": "acme.next", "effect": "deny", "message": "no"} if input.tool.name == "Bash"`+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(next) })
	d := newDaemon(t, "policy: {profile: observe, shadow: "+next+", rules: {deny: [\"Bash(false *)\"]}}\n"+
		"sessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n"+
		"accounts: {4242: other}\nweb: {listen: \"127.0.0.1:0\"}\nskills: {workspace: true}\n"+
		"hooks: {preToolUse: [{name: nothing, command: /bin/true}]}\n")
	d.write("ws/.claude/skills/hello/SKILL.md", "---\nname: hello\ndescription: says hello\n---\n\nSay hello to $ARGUMENTS.\n")
	d.write("ws/.claude/skills/broken/SKILL.md", "no front matter\n")
	p := parameters{scoped{d: d, socket: "o.sock", account: "default-admin"}, t, map[string]bool{}}
	p.id("/sessions", `{"id":"one"}`)
	p.id("/sessions", `{"id":"two"}`)

	// Calls, their decisions, lines of the record, and what they changed.
	for _, id := range []string{"one", "two"} {
		d.mustCall(id, "Bash", `{"command":"echo `+id+` > `+id+`; mkdir -p in; echo x > in/`+id+`"}`)
		d.mustCall(id, "Bash", `{"command":"echo again > `+id+`"}`)
	}
	d.call("two", "Bash", `{"command":"false pear"}`)
	p.some("GET /decisions", "/decisions", "session_id", "one", 2)
	p.some("GET /decisions", "/decisions", "verdict", "deny", 1)
	p.some("GET /decisions", "/decisions", "search", "pear", 1)
	p.pages("GET /decisions", "/decisions")
	record := "/audit?limit=1000"
	p.some("GET /audit", record+"&event=begin", "session_id", "one", 2)
	p.some("GET /audit", record, "event", "begin", 4)
	p.some("GET /audit", record, "search", "sandboxd+dev", 1)
	p.some("GET /audit", record, "before", "2", 1)
	p.some("GET /audit", record, "connected", "true", 0)
	p.some("GET /audit", "/audit", "limit", "1", 1)
	p.tried["GET /changes path"] = true // it cannot be left out
	if _, all := p.get("/changes?path="+d.ws, ""); len(all) != 4 {
		t.Errorf("%d calls changed the workspace", len(all))
	}
	if _, some := p.get("/changes?path="+d.ws+"/in/one", ""); len(some) != 1 {
		t.Errorf("%d calls changed in/one", len(some))
	}
	p.pages("GET /changes", "/changes?path="+d.ws)
	p.pages("GET /sessions/{id}/changes", "/sessions/one/changes")

	// Sessions, their variables, messages, tasks, tools and skills.
	others := scoped{d: d, socket: "o.sock", account: "other"}
	others.id("/sessions", `{"id":"three"}`)
	everyone := p
	everyone.account = ""
	p.tried["GET /sessions accounts"] = true
	if _, all := everyone.get("/sessions", "accounts=all"); len(all) != 3 {
		t.Errorf("%d sessions of all accounts", len(all))
	}
	p.pages("GET /sessions", "/sessions")
	p.sorts("GET /sessions", "/sessions", "created_at", `"id":"one"`, `"id":"two"`)
	for name, body := range map[string]string{
		"apple": `{"value":"x","tags":["red"]}`, "pear": `{"value":{"n":1},"tags":["green"]}`,
	} {
		p.puts("/sessions/one/vars/"+name, body)
	}
	vars := "/sessions/one/vars"
	p.some("GET /sessions/{id}/vars", vars, "type", "USER_ADD", 2)
	p.some("GET /sessions/{id}/vars", vars, "tag", "red", 1)
	p.some("GET /sessions/{id}/vars", vars, "search", "pea", 1)
	p.pages("GET /sessions/{id}/vars", vars)
	p.posts("/sessions/one/messages", `{"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"second"}]}`)
	p.tried["GET /sessions/{id}/messages limit"], p.tried["GET /sessions/{id}/messages offset"] = true, true
	for query, want := range map[string]string{"limit=1": "second", "limit=1&offset=0": "first", "offset=1": "second"} {
		if answer, few := p.get("/sessions/one/messages", query); len(few) != 1 || !strings.Contains(few[0], want) {
			t.Errorf("messages, %s: %s", query, answer)
		}
	}
	p.id("/sessions/one/tasks", `{"subject":"a","owner":"ann"}`)
	p.id("/sessions/one/tasks", `{"subject":"b","status":"in_progress"}`)
	tasks := "/sessions/one/tasks"
	p.some("GET /sessions/{id}/tasks", tasks, "owner", "ann", 1)
	p.some("GET /sessions/{id}/tasks", tasks, "status", "in_progress", 1)
	p.pages("GET /sessions/{id}/tasks", tasks)
	p.says("GET /sessions/{id}/tools", "/sessions/one/tools", "format", "openai", `"type":"function"`)
	p.says("GET /sessions/{id}/tools", "/sessions/one/tools", "deferred", "true", `"TodoWrite"`)
	p.says("GET /sessions/{id}/skills", "/sessions/one/skills", "format", "ignored", "broken")
	p.says("GET /sessions/{id}/skills/{name}", "/sessions/one/skills/hello", "arguments", "Bob", "Say hello to Bob.")

	// Branches, floors and pages.
	old := p.id("/floors", `{"session_id":"one","floor_no":0,"state":"committed"}`)
	p.posts("/floors/"+old+"/branch", `{"branch_id":"alt"}`)
	floor := p.id("/floors", `{"session_id":"one","floor_no":1}`)
	p.id("/floors", `{"session_id":"one","floor_no":1,"branch_id":"alt"}`)
	other := p.id("/floors", `{"session_id":"two","floor_no":0}`)
	floors := "/floors"
	p.some("GET /floors", floors, "session_id", "two", 1)
	p.some("GET /floors", floors+"?session_id=one", "branch_id", "alt", 1)
	p.some("GET /floors", floors, "state", "committed", 1)
	p.pages("GET /floors", floors+"?session_id=one")
	p.sorts("GET /floors", floors+"?session_id=one&branch_id=main", "floor_no", `"floor_no":0`, `"floor_no":1`)
	p.pages("GET /sessions/{id}/branches", "/sessions/one/branches")
	p.sorts("GET /sessions/{id}/branches", "/sessions/one/branches", "branch_id", `"alt"`, `"main"`)
	page := p.id("/pages", `{"floor_id":"`+floor+`","page_no":0,"page_kind":"input"}`)
	p.id("/pages", `{"floor_id":"`+floor+`","page_no":1,"page_kind":"output"}`)
	p.id("/pages", `{"floor_id":"`+floor+`","page_no":1,"page_kind":"output","version":2}`)
	p.id("/pages", `{"floor_id":"`+other+`","page_no":0,"page_kind":"input"}`)
	pages := "/pages?floor_id=" + floor
	p.some("GET /pages", pages, "page_kind", "input", 1)
	p.some("GET /pages", pages, "is_active", "false", 1)
	p.pages("GET /pages", pages)
	p.sorts("GET /pages", pages+"&is_active=true", "page_no", `"page_no":0`, `"page_no":1`)

	// Variables of the five scopes.
	for _, v := range []string{
		`{"scope":"global","scope_id":"x","key":"a","value":"of all"}`, `{"scope":"chat","scope_id":"one","key":"b","value":"of one"}`,
		`{"scope":"chat","scope_id":"two","key":"b","value":"of two"}`,
		`{"scope":"chat","scope_id":"two","key":"f","value":"more of two"}`,
		`{"scope":"branch","session_id":"one","branch_id":"alt","key":"c","value":"of alt"}`,
		`{"scope":"branch","session_id":"one","branch_id":"main","key":"c","value":"of main"}`,
		`{"scope":"floor","scope_id":"` + floor + `","key":"d","value":"of the floor"}`,
		`{"scope":"page","scope_id":"` + page + `","key":"e","value":"of the page"}`,
	} {
		p.puts("/variables", v)
	}
	all := "/variables"
	p.some("GET /variables", all, "scope", "global", 1)
	p.some("GET /variables", all+"?scope=chat", "scope_id", "one", 1)
	p.some("GET /variables", all+"?scope=branch", "session_id", "one&branch_id=alt", 1)
	p.some("GET /variables", all+"?scope=branch&session_id=one", "branch_id", "alt", 1)
	p.some("GET /variables", all, "key", "a", 1)
	p.pages("GET /variables", all)
	p.sorts("GET /variables", all+"?scope=chat&scope_id=two", "key", `"of two"`, "more of two")
	resolve := "/variables/resolve?session_id=one"
	p.says("GET /variables/resolve", resolve, "branch_id", "alt", "of alt")
	p.says("GET /variables/resolve", resolve, "floor_id", floor, "of the floor")
	p.says("GET /variables/resolve", resolve, "page_id", page, "of the page")
	p.says("GET /variables/resolve", resolve, "include_layers", "true", `"layers"`)
	p.tried["GET /variables/resolve session_id"] = true // it cannot be left out
	for id, want := range map[string]string{"one": `"of one"`, "two": `"of two"`} {
		if answer, _ := p.get("/variables/resolve", "session_id="+id); !strings.Contains(answer, want) {
			t.Errorf("what holds in %s: %s", id, answer)
		}
	}
	p.some("GET /pages", "/pages", "floor_id", floor, 3)
	p.tried["DELETE /branches/{branch_id} session_id"] = true
	if status, _ := p.send("DELETE", "/branches/alt?session_id=two", ""); status != http.StatusNotFound {
		t.Errorf("a branch of another session: %d", status)
	}
	if status, answer := p.send("DELETE", "/branches/alt?session_id=one", ""); status != http.StatusOK {
		t.Errorf("a branch: %d %s", status, answer)
	}

	// What runs, what waits for a person, and links for viewers.
	for _, id := range []string{"one", "two"} {
		job := d.begin(id, `{"command":"echo 0123456789; cat","run_in_background":true}`)
		if !waitFor(func() bool { return strings.Contains(p.text("/jobs/"+job+"/output"), `"output":"0123`) }) {
			t.Fatalf("the job of %s prints nothing", id)
		}
		p.tried["GET /jobs/{id}/output offset"] = true
		if answer := p.text("/jobs/" + job + "/output?offset=4"); !strings.Contains(answer, `"output":"456789`) {
			t.Errorf("output from 4 on: %s", answer)
		}
		d.ask(id, "AskUser", `{"question":"which?"}`) // it ends with the daemon
	}
	if !waitFor(func() bool { _, all := p.get("/approvals", ""); return len(all) == 2 }) {
		t.Fatal("nobody is asked")
	}
	p.some("GET /jobs", "/jobs", "session_id", "one", 1)
	p.some("GET /calls", "/calls", "session_id", "one", 2)
	p.some("GET /approvals", "/approvals", "session_id", "one", 1)
	p.pages("GET /approvals", "/approvals")
	_, asked := p.get("/approvals", "session_id=one")
	var question struct{ ID string }
	if err := json.Unmarshal([]byte(asked[0]), &question); err != nil {
		t.Fatal(err)
	}
	p.tried["GET /approvals/stream session_id"] = true
	if got := p.hears("GET", "/approvals/stream?session_id=two", "", nil); !strings.Contains(got, `"session_id":"two"`) {
		t.Errorf("the questions of two begin with %s", got)
	}
	p.posts("/approvals/"+question.ID, `{"approved":false}`)
	p.tried["GET /approvals status"] = true
	for status, want := range map[string]int{"pending": 1, "refused": 1, "approved": 0, "all": 2} {
		if answer, some := p.get("/approvals", "status="+status); len(some) != want {
			t.Errorf("questions that are %s: %s", status, answer)
		}
	}
	for _, id := range []string{"one", "two"} {
		p.posts("/sessions/"+id+"/shares", "{}")
	}
	p.pages("GET /shares", "/shares")

	p.counts()

	// Streams.
	p.tried["GET /events session_id"], p.tried["GET /events type"] = true, true
	both := func() {
		d.mustCall("one", "Bash", `{"command":"true"}`)
		d.mustCall("two", "Bash", `{"command":"true"}`)
	}
	for query, want := range map[string]string{
		"session_id=one": `"session_id":"one"`, "session_id=two": `"session_id":"two"`, "type=call_end": `"type":"call_end"`,
	} {
		if got := p.hears("GET", "/events?"+query, "", both); !strings.Contains(got, want) {
			t.Errorf("the first event of %s is %s", query, got)
		}
	}
	p.tried["POST /sessions/{id}/calls output"] = true
	for query, want := range map[string]bool{"": true, "?output=true": true, "?output=false": false} {
		got := p.hears("POST", "/sessions/one/calls"+query, `{"tool":"Bash","args":{"command":"echo printed"}}`, nil)
		if strings.Contains(got, "event: output\n") != want || !strings.Contains(got, "event: end\n") {
			t.Errorf("a call with %q says %s", query, got)
		}
	}

	// Where a shadow differs.
	p.tried["GET /policies/shadow limit"], p.tried["GET /policies/shadow offset"] = true, true
	shadow := func(query string) (calls []string) {
		var report struct {
			Data struct {
				Differences []struct {
					CallID string `json:"call_id"`
				}
			}
		}
		if err := json.Unmarshal([]byte(p.text("/policies/shadow"+query)), &report); err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Data.Differences {
			calls = append(calls, c.CallID)
		}
		return calls
	}
	if !waitFor(func() bool { return len(shadow("")) >= 4 }) {
		t.Fatalf("the shadow differs in %v", p.text("/policies/shadow"))
	}
	if whole, few := shadow(""), shadow("?limit=1&offset=1"); len(few) != 1 || few[0] != whole[1] {
		t.Errorf("the second of %v is %v", whole, few)
	}
	// How long a profile is taken would be the verdict of a clock; TestProfilesOfTheDaemon has what is refused.
	p.tried["GET /debug/pprof/{name} seconds"] = true

	for name := range ofQueries(t) {
		if !p.tried[name] {
			t.Errorf("nothing tries %s", name)
		}
	}
}

// text is an answer as it is.
func (p parameters) text(path string) string { answer, _ := p.get(path, ""); return answer }

// hears is what a stream says: a call until it ends, another one until its first event. When its head is
// there, then is called.
func (p parameters) hears(method, path, body string, then func()) string {
	p.t.Helper()
	c, err := net.Dial("unix", filepath.Join(p.d.work, "run", p.socket))
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", method, path, len(body), body)
	in, said, last := bufio.NewReader(c), "", "data: "
	if method == http.MethodPost {
		last = "event: end"
	}
	for {
		line, err := in.ReadString('\n')
		said += line
		if err != nil || strings.HasPrefix(line, last) {
			return said
		}
		if line == "\r\n" && then != nil { // the head has ended
			then()
			then = nil
		}
	}
}

func (p parameters) puts(path, body string)  { p.makes(http.MethodPut, path, body) }
func (p parameters) posts(path, body string) { p.makes(http.MethodPost, path, body) }

func (p parameters) makes(method, path, body string) {
	p.t.Helper()
	if status, answer := p.send(method, path, body); status >= http.StatusBadRequest {
		p.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}

// counts tries the series of the metrics: each one that the documents name has a value by now, or a test that
// names it.
func (p parameters) counts() {
	p.t.Helper()
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		p.t.Fatal(err)
	}
	const ofTheSet = "../../metrics/metrics_test.go"
	elsewhere := map[string]string{
		"approval_wait_seconds": ofTheSet, "budget_refused_total": ofTheSet, "cache_requests_total": ofTheSet,
		"disk_files_bytes": ofTheSet, "disk_full_accounts": ofTheSet, "disk_low": ofTheSet, "disk_refused_total": ofTheSet,
		"disk_values_bytes": ofTheSet, "network_connections_total": ofTheSet,
		"audit_anchor_failing": "../../internal/audit/anchor_test.go", "audit_anchored_line": "../../internal/audit/anchor_test.go",
		"cron_missed": "cron_test.go", "cron_running": "cron_test.go", "language_servers": "lsp_server_test.go",
		"mcp_servers_connected": "mcp_gateway_test.go",
	}
	text := p.d.metrics()
	for _, m := range regexp.MustCompile("(?m)^\\| `(sandboxd_\\w+)`").FindAllStringSubmatch(string(doc), -1) {
		name := m[1]
		some := regexp.MustCompile(`(?m)^` + name + `(_count)?(\{.*\})? [^0\n]`).MatchString(text)
		file := elsewhere[strings.TrimPrefix(name, "sandboxd_")]
		switch {
		case some && file != "":
			p.t.Errorf("%s has a value here", name)
		case some:
		case file == "":
			p.t.Errorf("%s has no value, and no test names it", name)
		default:
			if test, err := os.ReadFile(file); err != nil || !strings.Contains(string(test), strings.TrimPrefix(name, "sandboxd_")) {
				p.t.Errorf("%s does not name %s: %v", file, name, err)
			}
		}
	}
}

// Where metrics.listen names an address, it serves these two routes to anybody, and none of the others.
func TestWhatTheAddressOfMetricsServes(t *testing.T) {
	at := freePort(t)
	d := newDaemon(t, "metrics: {listen: '"+at+"'}\n")
	get := func(path string) (status int, text string) {
		t.Helper()
		var res *http.Response
		ok := waitFor(func() (ok bool) { // it may open after the sockets
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+path, nil)
			if err == nil {
				res, err = http.DefaultClient.Do(req)
			}
			return err == nil
		})
		if !ok {
			t.Fatalf("nobody listens on %s:\n%s", at, d.log)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for path, want := range map[string]string{"/metrics": "\nsandboxd_build_info{", "/healthz": "ok\n"} {
		if status, text := get(path); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.200s", path, status, text)
		}
	}
	for _, path := range []string{"/status", "/v1/status", "/sessions", "/v1/metrics", "/debug/pprof", "/events", "/"} {
		if status, text := get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d %.200s", path, status, text)
		}
	}
}

// metrics are the series of a daemon.
func (d *running) metrics() string {
	d.t.Helper()
	status, text := scoped{d: d, socket: "o.sock"}.send(http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		d.t.Fatalf("metrics: %d %s", status, text)
	}
	return text + "\n"
}

// ofQueries are the parameters of queries in the specification, each with its route.
func ofQueries(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi.json")
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &api)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for path, methods := range api.Paths {
		for method, op := range methods {
			for _, param := range op.Parameters {
				if param.In == "query" {
					all[strings.ToUpper(method)+" "+path+" "+param.Name] = true
				}
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d parameters are documented", len(all))
	}
	return all
}
