package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

type sharedLink struct{ ID, URL string }

type shareRow struct {
	ID       string    `json:"id"`
	For      string    `json:"for"`
	By       string    `json:"made_by"`
	Password bool      `json:"password"`
	Ended    time.Time `json:"ended_at"`
	Open     int       `json:"open"`
	Looks    []struct {
		Address string    `json:"address"`
		Browser string    `json:"browser"`
		First   time.Time `json:"first_at"`
	} `json:"looks"`
}

// share makes a link for viewers of a session.
func share(t *testing.T, d *running, session string, in map[string]any) (sharedLink, *browser) {
	t.Helper()
	var made sharedLink
	if err := d.operator.Do(t.Context(), "POST", "/sessions/"+session+"/shares", in, &made); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(made.URL)
	if err != nil || made.ID == "" {
		t.Fatalf("%+v: %v", made, err)
	}
	return made, &browser{t: t, by: http.DefaultClient, origin: "http://" + u.Host}
}

func (l sharedLink) path() string {
	u, _ := url.Parse(l.URL) // share has parsed it
	return u.Path
}

// ends waits for the end of a stream. It may be cut off: the daemon does not wait for who reads.
func ends(t *testing.T, stream io.Reader) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stream) // either way it has ended
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
}

func shares(t *testing.T, d *running) (all []shareRow) {
	t.Helper()
	if err := d.operator.Do(t.Context(), "GET", "/shares", nil, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestW03_LinksArePaged: the page of the links shows 50, and leads to the rest.
func TestW03_LinksArePaged(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	session := d.session()
	for i := range 51 {
		share(t, d, session, map[string]any{"for": fmt.Sprintf("viewer-%02d", i)})
	}
	b := openPage(t, d, "Ada")
	first, rest := b.text("/shares"), b.text("/shares?offset=50")
	for text, want := range map[string]int{first: 50, rest: 1} {
		if got := strings.Count(text, "viewer-"); got != want {
			t.Errorf("%d links, want %d: %s", got, want, text)
		}
	}
	if !strings.Contains(first, "offset=50") || strings.Contains(rest, "offset=100") {
		t.Errorf("the first page does not lead to the second, or the second to a third:\n%s\n%s", first, rest)
	}
}

// W-03: a link shows one session, also after the daemon started again, until it is revoked: then it is
// refused at once, and what is open on it ends.
func TestW03_ALinkShowsASessionUntilItIsRevoked(t *testing.T) {
	d := newDaemon(t, "web: {listen: '"+freePort(t)+"'}\n")
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	session, other := d.session(), d.session()
	own := d.call(session, "Bash", `{"command": "echo key=`+secret+` '<script>alert(1)</script>'"}`)
	foreign := d.call(other, "Bash", `{"command": "echo foreign"}`)
	link, viewer := share(t, d, session, map[string]any{"for": "Grace <b>"})
	d.stop(os.Interrupt)
	d.start()
	again := d.call(session, "Bash", `{"command": "echo password=hunter22hunter22; ls /etc/hostname"}`)
	text := viewer.text(link.path())
	if !strings.Contains(text, `data-call="`+own.CallID+`"`) || strings.Contains(text, foreign.CallID) {
		t.Errorf("the page of the link is not of its session alone: %s", text)
	}
	result := viewer.text(link.path() + "/calls/" + again.CallID)
	if !strings.Contains(result, "SUCCESS") || !strings.Contains(result, "/etc/hostname") {
		t.Errorf("the result: %s", result)
	}
	for what, text := range map[string]string{"page": text, "result": result} {
		for _, bad := range []string{secret, "hunter22", "<script>alert"} {
			if strings.Contains(text, bad) {
				t.Errorf("the %s has %s: %s", what, bad, text)
			}
		}
	}
	for path, want := range map[string]int{
		"/calls/" + foreign.CallID: 404, "/calls/../../v1/approvals": 401, "/calls/%2e%2e%2fstatus": 404, "/calls/x": 404,
	} {
		if got := viewer.send("GET", link.path()+path, "", nil); got.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", path, got.Status, want)
		}
	}
	if got := viewer.send("GET", link.path()+"x", "", nil); got.StatusCode != 403 {
		t.Errorf("another token: %s", got.Status)
	}
	fromChat := viewer.send("GET", link.path(), "", map[string]string{"Sec-Fetch-Site": "cross-site"})
	if fromChat.StatusCode != 200 {
		t.Errorf("a link that was opened from another site: %s", fromChat.Status)
	}
	if got := viewer.send("GET", link.path()+"/events", "", map[string]string{"Sec-Fetch-Site": "cross-site"}); got.StatusCode != 403 {
		t.Errorf("events for another site: %s", got.Status)
	}

	stream := viewer.send("GET", link.path()+"/events", "", nil)
	events := bufio.NewReader(stream.Body)
	if line, err := events.ReadString('\n'); err != nil || line != ": ready\n" {
		t.Fatalf("the stream: %q, %v", line, err)
	}
	d.call(other, "Bash", `{"command": "true"}`)
	heard := d.call(session, "Bash", `{"command": "true"}`)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		var err error
		if line, err = events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") && !strings.Contains(line, heard.CallID) {
			t.Errorf("an event of another session: %s", line)
		}
	}
	rows := shares(t, d)
	if len(rows) != 1 || rows[0].ID != link.ID || rows[0].For != "Grace <b>" || rows[0].Open != 1 ||
		len(rows[0].Looks) != 1 || rows[0].Looks[0].Address != "127.0.0.1" || !strings.HasPrefix(rows[0].Looks[0].Browser, "Go-http") {
		t.Errorf("who looked: %+v", rows)
	}

	if err := d.operator.Do(t.Context(), "DELETE", "/shares/none", nil, nil); codeOf(err) != "share_not_found" {
		t.Errorf("the end of a link that is none: %v", err)
	}
	if err := d.operator.Do(t.Context(), "DELETE", "/shares/"+link.ID, nil, nil); err != nil {
		t.Fatal(err)
	}
	ends(t, events)
	for _, path := range []string{"", "/events", "/calls/" + own.CallID} {
		if got := viewer.send("GET", link.path()+path, "", nil); got.StatusCode != 403 {
			t.Errorf("after the end: GET %s: %s", path, got.Status)
		}
	}
	if rows := shares(t, d); len(rows) != 1 || rows[0].Ended.IsZero() || rows[0].Open != 0 {
		t.Errorf("after the end: %+v", rows)
	}
	record, err := os.ReadFile(filepath.Join(d.work, "state/audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(link.path(), "/shared/")
	for want, n := range map[string]int{`"web_share"`: 1, `"web_share_opened"`: 1, `"web_share_revoked"`: 1, token: 0} {
		if got := strings.Count(string(record), want); got != n {
			t.Errorf("the record has %s %d times, want %d", want, got, n)
		}
	}
	kept, err := filepath.Glob(filepath.Join(d.work, "state/*.db*"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("no database: %v", err)
	}
	for _, file := range kept {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), token) {
			t.Errorf("%s has the token, or cannot be read: %v", file, err)
		}
	}
}

// W-07: whatever a viewer sends, in whatever way the token is given, no route changes something.
func TestW07_AViewerChangesNothing(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\npolicy: {rules: {ask: ['Bash(touch *)']}}\n")
	session := d.session()
	call := d.call(session, "Bash", `{"command": "echo one"}`)
	link, viewer := share(t, d, session, map[string]any{})
	token := strings.TrimPrefix(link.path(), "/shared/")
	given := map[string]string{
		"Authorization": "Bearer " + token, "X-CSRF-Token": token, "Content-Type": "application/json",
		"Cookie": "sandboxd=" + token + "; sandboxd_viewer=" + token, "Origin": viewer.origin,
	}
	openapi, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(openapi, &doc); err != nil {
		t.Fatal(err)
	}
	ids := strings.NewReplacer("{id}", session, "{name}", "x", "{port}", "1", "{task}", "1", "{team}", "x", "{branch_id}", "x")
	tried := 0
	for pattern, methods := range doc.Paths {
		path := ids.Replace(strings.TrimPrefix(pattern, "/v1"))
		for method := range methods {
			method = strings.ToUpper(method)
			for _, at := range []string{"/v1" + path, link.path() + path, link.path() + "/v1" + path} {
				got := viewer.send(method, at, "{}", given)
				got.Body.Close() // connections are few
				if reads := method == "GET" && at == link.path()+"/events"; got.StatusCode < 400 && !reads {
					t.Errorf("%s %s: %s", method, at, got.Status)
				}
				tried++
			}
		}
	}
	if tried < 200 {
		t.Errorf("%d requests were tried", tried)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE"} {
		for _, path := range []string{"", "/calls/" + call.CallID, "/events", "/calls/" + call.CallID + "/undo"} {
			got := viewer.send(method, link.path()+path, "{}", given)
			got.Body.Close()
			if got.StatusCode < 400 {
				t.Errorf("%s %s: %s", method, path, got.Status)
			}
		}
	}
	for _, shown := range []string{viewer.text(link.path()), viewer.text(link.path() + "/calls/" + call.CallID)} {
		if regexp.MustCompile(`name="csrf"|data-undo|data-cancel|data-answer|<form`).MatchString(shown) {
			t.Errorf("the page of a viewer has a button that changes something: %s", shown)
		}
	}
	if rows := shares(t, d); len(rows) != 1 || !rows[0].Ended.IsZero() {
		t.Errorf("the link afterwards: %+v", rows)
	}
}

// A link with a password is opened by that alone, in that browser, and few tries are answered.
func TestW03_APasswordIsAskedForAndCannotBeTriedOut(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	session := d.session()
	call := d.call(session, "Bash", `{"command": "echo hidden"}`)
	link, viewer := share(t, d, session, map[string]any{"password": "correct horse"})
	for _, path := range []string{"", "/events", "/calls/" + call.CallID} {
		got := viewer.send("GET", link.path()+path, "", nil)
		text, _ := io.ReadAll(got.Body)
		if got.StatusCode != 401 || strings.Contains(string(text), call.CallID) {
			t.Errorf("without the password: GET %s: %s: %s", path, got.Status, text)
		}
	}
	try := func(b *browser, password string) *http.Response {
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		got, err := client.PostForm(b.origin+link.path(), url.Values{"password": {password}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got
	}
	got := try(viewer, "correct horse")
	if got.StatusCode != 303 || len(got.Cookies()) != 1 {
		t.Fatalf("the password: %s", got.Status)
	}
	cookie := got.Cookies()[0]
	if cookie.Path != link.path() || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %+v", cookie)
	}
	viewer.cookie = cookie
	if !strings.Contains(viewer.text(link.path()), call.CallID) {
		t.Error("the password opened nothing")
	}
	second, _ := share(t, d, session, map[string]any{"password": "another horse"})
	if got := viewer.send("GET", second.path(), "", nil); got.StatusCode != 401 {
		t.Errorf("the cookie of one link opens another: %s", got.Status)
	}
	var said []int
	for n := range 8 {
		said = append(said, try(viewer, fmt.Sprintf("wrong horse %d", n)).StatusCode)
	}
	if said[0] != 403 || said[7] != 429 {
		t.Errorf("wrong passwords were answered by %v", said)
	}
	if got := try(viewer, "correct horse"); got.StatusCode != 429 || got.Header.Get("Retry-After") == "" {
		t.Errorf("the right one after them: %s", got.Status)
	}
	if viewer.text(link.path()) == "" {
		t.Error("who gave the password before is locked out")
	}
	record, err := os.ReadFile(filepath.Join(d.work, "state/audit.jsonl"))
	if err != nil || !strings.Contains(string(record), `"web_share_refused"`) || strings.Contains(string(record), "horse") {
		t.Errorf("the record: %v", err)
	}
}

// What cannot be a link is refused, and one ends with its session.
func TestW03_ALinkEndsWithItsSession(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	session := d.session()
	for name, in := range map[string]map[string]any{
		"too long": {"hours": 721}, "before now": {"hours": -1}, "a short password": {"password": "short"},
		"a long name": {"for": strings.Repeat("x", 65)}, "what there is not": {"role": "operator"},
	} {
		if err := d.operator.Do(t.Context(), "POST", "/sessions/"+session+"/shares", in, nil); err == nil {
			t.Errorf("%s: a link was made", name)
		}
	}
	if err := d.operator.Do(t.Context(), "POST", "/sessions/nothing/shares", map[string]any{}, nil); err == nil {
		t.Error("a link to no session was made")
	}
	if err := d.agent.Do(t.Context(), "POST", "/sessions/"+session+"/shares", map[string]any{}, nil); err == nil {
		t.Error("an agent made a link")
	}
	link, viewer := share(t, d, session, map[string]any{})
	stream := viewer.send("GET", link.path()+"/events", "", nil)
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+session, nil, nil); err != nil {
		t.Fatal(err)
	}
	ends(t, stream.Body)
	if got := viewer.send("GET", link.path(), "", nil); got.StatusCode != 403 {
		t.Errorf("after the end of the session: %s", got.Status)
	}
	if rows := shares(t, d); len(rows) != 0 {
		t.Errorf("what is left: %+v", rows)
	}
}

// The commands make, list and end links.
func TestW03_TheCommandsOfLinks(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	session := d.session()
	run := func(stdin string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "sandboxd"), append([]string{"share"}, args...)...)
		cmd.Env, cmd.Stdin = d.env, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("share %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	made := strings.TrimSpace(run("correct horse\n", session, "--for", "Grace\x1b[31m", "--hours", "2", "--password-file", "-"))
	u, err := url.Parse(made)
	if err != nil {
		t.Fatal(err)
	}
	viewer := &browser{t: t, by: http.DefaultClient, origin: "http://" + u.Host}
	if got := viewer.send("GET", u.Path, "", nil); got.StatusCode != 401 {
		t.Errorf("the link: %s", got.Status)
	}
	listed := run("", "list")
	if !strings.Contains(listed, session) || !strings.Contains(listed, "Grace") || strings.Contains(listed, "\x1b") {
		t.Errorf("the list: %q", listed)
	}
	rows := shares(t, d)
	if len(rows) != 1 || !rows[0].Password {
		t.Fatalf("%+v", rows)
	}
	if out := run("", "revoke", rows[0].ID); !strings.Contains(out, "ended") {
		t.Errorf("revoke: %s", out)
	}
	if got := viewer.send("GET", u.Path, "", nil); got.StatusCode != 403 {
		t.Errorf("after the end: %s", got.Status)
	}
	if !strings.Contains(run("", "list"), "ended ") {
		t.Error("the list does not say that it ended")
	}
}

// The link for a login is for programs too, and a browser opens it where it is told to.
func TestW04_TheCommandOfLogins(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	opened := filepath.Join(d.work, "opened")
	d.write("bin/xdg-open", "#!/bin/sh\nprintf %s \"$1\" > "+opened+"\n")
	if err := os.Chmod(filepath.Join(d.work, "bin/xdg-open"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, "PATH="+filepath.Join(d.work, "bin")+":"+os.Getenv("PATH"))
	out, err := d.exec("sandboxd", "web", "--as", "Ada", "--open", "--json")
	var made struct {
		URL     string    `json:"url"`
		Expires time.Time `json:"expires_at"`
	}
	if err != nil || json.Unmarshal([]byte(out), &made) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := time.Until(made.Expires); left <= 0 || left > time.Minute {
		t.Errorf("the link is good for %v more", left)
	}
	got, err := os.ReadFile(opened)
	if err != nil || string(got) != made.URL || !strings.Contains(made.URL, "/login?token=") {
		t.Errorf("opened is %q, %v, and the link %q", got, err, made.URL)
	}
}
