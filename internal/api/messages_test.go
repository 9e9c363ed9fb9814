package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// says is a message of a user, whose uuid is that of its number.
func says(n int) string { return fmt.Sprintf(`{"role":"user","content":"say %d","uuid":"u%d"}`, n, n) }

// from is the messages from one number to another, as a body.
func saying(from, to int) string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, says(n))
	}
	return `{"messages":[` + strings.Join(all, ",") + `]}`
}

// talk makes a session with n messages.
func (w *world) talk(id string, n int) string {
	w.t.Helper()
	w.want(201, "POST", "/sessions", `{"id":"`+id+`"}`)
	w.want(200, "PUT", "/sessions/"+id+"/messages", saying(1, n))
	return id
}

// want sends a request of an agent that has this status.
func (w *world) want(status int, method, path, body string) answer {
	w.t.Helper()
	a := w.do(tool.RoleAgent, method, path, body)
	if a.status != status {
		w.t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	return a
}

func (w *world) sessionOf(a answer) session {
	w.t.Helper()
	var s session
	must(w.t, json.Unmarshal(a.Data, &s))
	return s
}

// heard are the numbers of the messages of a session, as in 1-3.
func (w *world) heard(id string) string {
	w.t.Helper()
	var all []struct {
		UUID string `json:"uuid"`
	}
	must(w.t, json.Unmarshal(w.want(200, "GET", "/sessions/"+id+"/messages?offset=0&limit=1000", "").Data, &all))
	var numbers []string
	for _, m := range all {
		numbers = append(numbers, strings.TrimPrefix(m.UUID, "u"))
	}
	return strings.Join(numbers, " ")
}

func (w *world) file(id string) string {
	return filepath.Join(w.dir, "sessions", id, "transcript.json")
}

// A save keeps the time of creation and what it does not mention, and renews the time of change.
func TestD03_SavesKeepTheCreation(t *testing.T) {
	w := newWorld(t)
	made := w.sessionOf(w.want(201, "POST", "/sessions", `{"id":"s"}`))
	first := w.sessionOf(w.want(200, "PUT", "/sessions/s/messages", `{"messages":[`+says(1)+`],"metadata":{
		"model":"m","summary":"about it","tag":"t","first_prompt":"given","git_branch":"main"}}`))
	time.Sleep(2 * time.Millisecond) // the times have milliseconds for those who read them
	second := w.sessionOf(w.want(200, "PUT", "/sessions/s/messages", `{"messages":[`+says(2)+`,`+says(3)+`],"metadata":{"tag":""}}`))
	if !second.CreatedAt.Equal(made.CreatedAt) || !second.UpdatedAt.After(first.UpdatedAt) || !first.UpdatedAt.After(made.UpdatedAt) {
		t.Errorf("created %v, then %v; updated %v, %v, %v",
			made.CreatedAt, second.CreatedAt, made.UpdatedAt, first.UpdatedAt, second.UpdatedAt)
	}
	if first.Model != "m" || first.Summary != "about it" || first.Tag != "t" || first.FirstPrompt != "given" ||
		first.GitBranch != "main" || first.MessageCount != 1 {
		t.Errorf("got %+v", first)
	}
	if second.Model != "m" || second.Summary != "about it" || second.Tag != "" || second.FirstPrompt != "say 2" ||
		second.MessageCount != 2 {
		t.Errorf("got %+v", second)
	}
}

func TestD06_CX39_TheTailAndAPage(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 120)
	for _, tt := range []struct {
		query           string
		from, to, total int
		more            bool
	}{
		{"?limit=50", 71, 120, 120, false},
		{"", 71, 120, 120, false},
		{"?limit=50&offset=0", 1, 50, 120, true},
		{"?limit=3&offset=70", 71, 73, 120, true},
		{"?offset=100", 101, 120, 120, false},
		{"?limit=1000", 1, 120, 120, false},
		{"?offset=120", 1, 0, 120, false},
		{"?offset=500", 1, 0, 120, false},
	} {
		a := w.want(200, "GET", "/sessions/s/messages"+tt.query, "")
		var meta struct{ Meta route.Meta }
		must(t, json.Unmarshal(a.body, &meta))
		want := strings.TrimSuffix(strings.TrimPrefix(saying(tt.from, tt.to), `{"messages":`), "}")
		if string(a.Data) != want || meta.Meta.Total != tt.total || meta.Meta.HasMore != tt.more ||
			len(want) > 2 && meta.Meta.Offset != tt.from-1 {
			t.Errorf("%q: got %+v %s", tt.query, meta.Meta, a.Data)
		}
	}
	w.want(201, "POST", "/sessions", `{"id":"silent"}`)
	if a := w.want(200, "GET", "/sessions/silent/messages", ""); string(a.Data) != "[]" {
		t.Errorf("a session that said nothing: %s", a.body)
	}
	for _, query := range []string{"limit=0", "limit=-1", "limit=x", "offset=-1", "offset=1.5", "limit=99999999999999999999", "from=1"} {
		w.want(400, "GET", "/sessions/s/messages?"+query, "")
	}
}

// What a client sends comes back as it was: digits, escapes, unknown fields, their order.
func TestMessagesAreKeptAsTheyAre(t *testing.T) {
	w := newWorld(t)
	w.want(201, "POST", "/sessions", `{"id":"s"}`)
	const odd = `{"z":1,"role":"assistant","content":[{"type":"tool_use","input":{"n":12345678901234567890.10,"e":1E400}}],"a":"<&> \u00e9 \u2028 ä\n"}`
	w.want(200, "PUT", "/sessions/s/messages", `{"messages":[`+strings.ReplaceAll(odd, `,"a"`, " ,\n\t\"a\"")+`]}`)
	if a := w.want(200, "GET", "/sessions/s/messages", ""); string(a.Data) != "["+odd+"]" {
		t.Errorf("got %s", a.Data)
	}
	for _, body := range []string{
		``, `{}`, `{"messages":null}`, `{"messages":{}}`, `{"messages":[7]}`, `{"messages":[{"role":"user"}]}`,
		`{"messages":[{"role":"nobody","content":""}]}`, `{"messages":[],"more":1}`,
		`{"messages":[],"metadata":{"cwd":"/"}}`, `{"messages":[{"role":"user","content":"","content":""}]}`,
		`{"messages":[],"metadata":{"model":"` + strings.Repeat("m", 257) + `"}}`,
		`{"messages":[],"metadata":{"tag":"` + strings.Repeat("m", 257) + `"}}`,
		`{"messages":[],"metadata":{"git_branch":"` + strings.Repeat("m", 257) + `"}}`,
		`{"messages":[],"metadata":{"first_prompt":"` + strings.Repeat("m", 1<<10+1) + `"}}`,
		`{"messages":[],"metadata":{"summary":"` + strings.Repeat("m", 4<<10+1) + `"}}`,
	} {
		w.want(400, "PUT", "/sessions/s/messages", body)
		w.want(400, "POST", "/sessions/s/messages", body)
	}
	huge := `{"messages":[{"role":"user","content":"` + strings.Repeat("a", 8<<20) + `"}]}`
	w.want(413, "POST", "/sessions/s/messages", huge)
	if a := w.want(200, "GET", "/sessions/s/messages", ""); string(a.Data) != "["+odd+"]" {
		t.Errorf("a refused save changed something: %s", a.Data)
	}
	w.want(200, "POST", "/sessions/s/messages", `{"messages":[],"metadata":{"model":"`+strings.Repeat("m", 256)+
		`","git_branch":"`+strings.Repeat("m", 256)+`","first_prompt":"`+strings.Repeat("m", 1<<10)+
		`","summary":"`+strings.Repeat("m", 4<<10)+`"}}`)
}

func TestD07_ASaveMovesASessionToTheFront(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		w.talk(id, 1)
	}
	w.want(200, "POST", "/sessions/b/messages", saying(2, 2))
	must(t, os.WriteFile(w.file("c"), []byte(`{"metadata":{`), 0o600))
	var all []session
	must(t, json.Unmarshal(w.want(200, "GET", "/sessions?sort_by=updated_at&sort_order=desc", "").Data, &all))
	got := ""
	for _, s := range all {
		got += s.ID
		if s.Damaged != (s.ID == "c") {
			t.Errorf("%s: transcript_damaged is %v", s.ID, s.Damaged)
		}
	}
	if got != "bdca" {
		t.Errorf("got the order %s", got)
	}
}

func TestD08_TheMetadataOfASession(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 2)
	w.want(200, "POST", "/sessions/s/messages", `{"messages":[],"metadata":{"model":"m","summary":"y","tag":"t","git_branch":"b"}}`)
	w.want(200, "PATCH", "/sessions/s", `{"title":"the title"}`)
	info, err := os.Stat(w.file("s"))
	must(t, err)
	got := w.sessionOf(w.want(200, "GET", "/sessions/s", ""))
	want := session{
		ID: "s", Dir: w.dir, Title: "the title", Tag: "t", Mode: got.Mode, Profile: got.Profile, CreatedAt: got.CreatedAt,
		UpdatedAt: got.UpdatedAt, Model: "m", Summary: "y", FirstPrompt: "say 1", GitBranch: "b", MessageCount: 2,
		FileSize: info.Size(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(w.file("s"))
	must(t, err)
	var file struct {
		Metadata map[string]any
		Messages []any
	}
	must(t, json.Unmarshal(text, &file))
	for key, want := range map[string]time.Time{"createdAt": got.CreatedAt, "updatedAt": got.UpdatedAt} {
		if at, err := time.Parse(time.RFC3339Nano, file.Metadata[key].(string)); err != nil || !at.Equal(want) {
			t.Errorf("%s is %v, %v, want %v", key, at, err, want)
		}
		delete(file.Metadata, key)
	}
	if diff := cmp.Diff(map[string]any{
		"id": "s", "cwd": w.dir, "model": "m", "messageCount": 2.0, "title": "the title", "summary": "y", "tag": "t",
		"firstPrompt": "say 1", "gitBranch": "b",
	}, file.Metadata); diff != "" {
		t.Error(diff)
	}
}

func TestD09_CX40_AForkHasTheFirstMessages(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 12)
	w.do(tool.RoleOperator, "PATCH", "/sessions/s",
		`{"mode":"plan","tag":"mine","title":"t","metadata":{"n":1},"sandbox":{"deniedPaths":["/x"]}}`)
	w.do(tool.RoleOperator, "PUT", "/sessions/s/tools/Echo", `{"enabled":false}`)
	before, err := os.ReadFile(w.file("s"))
	must(t, err)
	source := w.sessionOf(w.want(200, "GET", "/sessions/s", ""))

	ten := w.sessionOf(w.want(201, "POST", "/sessions/s/fork", `{"new_id":"ten","up_to_message_index":10}`))
	if ten.ID != "ten" || ten.MessageCount != 10 || w.heard("ten") != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("got %+v", ten)
	}
	if ten.Mode != source.Mode || ten.Title != "t" || ten.Tag != "" || cmp.Diff(ten.Tools, source.Tools) != "" ||
		cmp.Diff(ten.Sandbox, source.Sandbox) != "" || source.Mode != "plan" || len(source.Tools) == 0 || source.Sandbox == nil {
		t.Errorf("the fork has other settings:\n%s", cmp.Diff(source, ten))
	}
	if ten.Dir != source.Dir || string(ten.Metadata) != `{"n":1}` {
		t.Errorf("the fork is in %s with %s", ten.Dir, ten.Metadata)
	}
	if all := w.sessionOf(w.want(201, "POST", "/sessions/s/fork", `{}`)); !strings.HasPrefix(all.ID, "ses_") || all.MessageCount != 12 {
		t.Errorf("got %+v", all)
	}
	if all := w.sessionOf(w.want(201, "POST", "/sessions/s/fork", `{"up_to_message_index":99}`)); all.MessageCount != 12 {
		t.Errorf("got %+v", all)
	}
	if none := w.sessionOf(w.want(201, "POST", "/sessions/s/fork", `{"up_to_message_index":0}`)); none.MessageCount != 0 ||
		none.FirstPrompt != "" {
		t.Errorf("got %+v", none)
	}
	after, err := os.ReadFile(w.file("s"))
	must(t, err)
	if string(before) != string(after) {
		t.Error("the source has changed")
	}
	w.want(409, "POST", "/sessions/s/fork", `{"new_id":"ten"}`)
	w.want(404, "POST", "/sessions/none/fork", `{}`)
	w.want(400, "POST", "/sessions/s/fork", `{"up_to_message_index":-1}`)
	if got := w.heard("ten"); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("a fork that was refused changed the session of that id: %s", got)
	}
	w.want(201, "POST", "/sessions", `{"id":"silent"}`)
	if none := w.sessionOf(w.want(201, "POST", "/sessions/silent/fork", `{}`)); none.MessageCount != 0 || none.FileSize != 0 {
		t.Errorf("got %+v", none)
	}
}

// An agent gets no looser mode by a fork than it may ask for, whatever its operator gave the
// source for a while.
func TestAForkByAnAgentIsNoLooser(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 1)
	w.do(tool.RoleOperator, "PATCH", "/sessions/s", `{"mode":"bypassPermissions"}`)
	if got := w.sessionOf(w.want(201, "POST", "/sessions/s/fork", `{}`)); got.Mode != tool.ModeAuto {
		t.Errorf("got mode %s", got.Mode)
	}
	if got := w.sessionOf(w.want(201, "POST", "/sessions", `{"resume":"s","fork":true}`)); got.Mode != tool.ModeAuto {
		t.Errorf("got mode %s", got.Mode)
	}
	if got := w.sessionOf(w.do(tool.RoleOperator, "POST", "/sessions/s/fork", `{}`)); got.Mode != "bypassPermissions" {
		t.Errorf("an operator got mode %s", got.Mode)
	}
}

func TestD10_DeletingTakesTheDirectoryAlong(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 1)
	if a := w.want(200, "DELETE", "/sessions/s", ""); !strings.Contains(string(a.Data), `"deleted":true`) {
		t.Errorf("got %s", a.Data)
	}
	if _, err := os.Stat(filepath.Dir(w.file("s"))); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
	w.want(404, "DELETE", "/sessions/s", "")
	must(t, os.MkdirAll(filepath.Dir(w.file("s")), 0o700)) // as a crash would leave it
	must(t, os.WriteFile(w.file("s"), []byte("old"), 0o600))
	w.want(201, "POST", "/sessions", `{"id":"s"}`)
	if got := w.heard("s"); got != "" {
		t.Errorf("the new session has what the old said: %s", got)
	}
}

func TestD11_ATitleAndATagChangeTheMetadataOnly(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 2)
	messages := func() string {
		text, err := os.ReadFile(w.file("s"))
		must(t, err)
		_, rest, _ := strings.Cut(string(text), "\n")
		return rest
	}
	before := messages()
	w.want(200, "PATCH", "/sessions/s", `{"title":"new","tag":"red"}`)
	meta := func() (title, tag string) {
		text, err := os.ReadFile(w.file("s"))
		must(t, err)
		var file struct{ Metadata struct{ Title, Tag string } }
		must(t, json.Unmarshal(text, &file))
		return file.Metadata.Title, file.Metadata.Tag
	}
	if title, tag := meta(); title != "new" || tag != "red" || messages() != before {
		t.Errorf("got %q, %q, %s", title, tag, messages())
	}
	w.want(200, "PATCH", "/sessions/s", `{"tag":""}`)
	if title, tag := meta(); title != "new" || tag != "" {
		t.Errorf("got %q, %q", title, tag)
	}
	must(t, os.WriteFile(w.file("s"), nil, 0o600))
	if got := w.sessionOf(w.want(200, "PATCH", "/sessions/s", `{"title":"later"}`)); got.Title != "later" || !got.Damaged {
		t.Errorf("beside a damaged transcript: %+v", got)
	}
}

// Sockets of two accounts: for the other one there is no session, so nothing is read, saved,
// forked or resumed.
func TestATranscriptBelongsToItsAccount(t *testing.T) {
	var number atomic.Int32 // of the account
	w := newWorld(t, func(o *Options) {
		o.Account = func(int) (string, bool) { return fmt.Sprint("a", number.Load()), true }
	})
	w.talk("s", 1)
	number.Store(2)
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/sessions/s/messages", ""},
		{"PUT", "/sessions/s/messages", saying(7, 7)},
		{"POST", "/sessions/s/messages", saying(7, 7)},
		{"POST", "/sessions/s/fork", "{}"},
		{"POST", "/sessions", `{"resume":"s"}`},
		{"POST", "/sessions", `{"resume":"s","fork":true,"resume_at":"u1"}`},
	} {
		if a := w.want(404, tt.method, tt.path, tt.body); a.Error.Code != "session_not_found" {
			t.Errorf("%s %s: %s", tt.method, tt.path, a.body)
		}
	}
	if s := w.sessionOf(w.want(201, "POST", "/sessions", `{"continue_recent":true}`)); s.ID == "s" || s.MessageCount != 0 {
		t.Errorf("got %+v", s)
	}
	number.Store(0)
	if got := w.heard("s"); got != "1" {
		t.Errorf("got %s", got)
	}
}

func TestD17_IDsOnEveryRouteOfTranscripts(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 1)
	for _, tt := range []struct{ id, want string }{
		{"a/b", "Session ID contains invalid character: '/'"},
		{`a\b`, `Session ID contains invalid character: '\'`},
		{"a..b", "Session ID contains invalid character: '..'"},
		{".new", "Session ID contains invalid character: '.'"},
		{"a\x00b", "Session ID contains invalid character: 'U+0000'"},
		{strings.Repeat("a", 129), "Session ID is longer than 128 bytes"},
		{"", "Session ID must not be empty"},
	} {
		name, err := json.Marshal(tt.id)
		must(t, err)
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/sessions/%s/messages", ""},
			{"PUT", "/sessions/%s/messages", saying(1, 1)},
			{"POST", "/sessions/%s/messages", saying(1, 1)},
			{"POST", "/sessions/%s/fork", "{}"},
			{"GET", "/sessions/%s", ""},
			{"PATCH", "/sessions/%s", "{}"},
			{"DELETE", "/sessions/%s", ""},
			{"POST", "/sessions/s/fork", `{"new_id":ID}`},
			{"POST", "/sessions", `{"id":ID}`},
			{"POST", "/sessions", `{"resume":ID}`},
			{"POST", "/sessions", `{"resume":"s","fork":true,"id":ID}`},
		} {
			path := r.path
			if strings.Contains(path, "%s") {
				if tt.id == "" {
					continue // is another path
				}
				path = fmt.Sprintf(path, url.PathEscape(tt.id))
			}
			a := w.want(http.StatusBadRequest, r.method, path, strings.ReplaceAll(r.body, "ID", string(name)))
			if a.Error.Msg != tt.want {
				t.Errorf("%s %s %q: got %s, want %s", r.method, r.path, tt.id, a.Error.Msg, tt.want)
			}
		}
	}
	for _, id := range []string{"a%2Fb", "größe", "a b"} { // as they are, they are names
		w.want(201, "POST", "/sessions", `{"id":"`+id+`"}`)
		w.want(200, "PUT", "/sessions/"+url.PathEscape(id)+"/messages", saying(1, 1))
		if _, err := os.Stat(w.file(id)); err != nil {
			t.Error(err)
		}
	}
}

// A damaged transcript is said, and saving it whole repairs it; what is no file stays.
func TestD05_ADamagedTranscriptIsSaidAndRepaired(t *testing.T) {
	w := newWorld(t)
	w.want(404, "GET", "/sessions/none/messages", "")
	w.talk("s", 3)
	text, err := os.ReadFile(w.file("s"))
	must(t, err)
	must(t, os.WriteFile(w.file("s"), text[:len(text)-20], 0o600)) // half of the last line
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/sessions/s/messages", ""},
		{"POST", "/sessions/s/messages", saying(4, 4)},
		{"POST", "/sessions/s/fork", "{}"},
		{"POST", "/sessions", `{"resume":"s","fork":true}`},
		{"POST", "/sessions", `{"resume":"s","resume_at":"u1"}`},
	} {
		if a := w.want(422, r.method, r.path, r.body); a.Error.Code != "transcript_corrupt" || a.Error.Hint == "" {
			t.Errorf("%s %s: %s", r.method, r.path, a.body)
		}
	}
	w.want(200, "PUT", "/sessions/s/messages", saying(1, 2))
	if got := w.heard("s"); got != "1 2" {
		t.Errorf("got %s", got)
	}
	secret := filepath.Join(w.dir, "secret")
	must(t, os.WriteFile(secret, text, 0o600))
	must(t, os.Remove(w.file("s")))
	must(t, os.Symlink(secret, w.file("s")))
	w.want(422, "GET", "/sessions/s/messages", "")
	w.want(422, "PUT", "/sessions/s/messages", saying(1, 2))
	if now, err := os.ReadFile(secret); err != nil || string(now) != string(text) {
		t.Errorf("the target of a link has changed: %v", err)
	}
}
