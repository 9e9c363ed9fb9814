package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reading is the output in a stream of events, as it comes.
type reading struct {
	t    *testing.T
	in   *bufio.Reader
	text string // of all output
	all  string // of all that came
	over bool
}

func following(t *testing.T, body io.Reader) *reading {
	return &reading{t: t, in: bufio.NewReader(body)}
}

// until reads on until the output has a text, or ends; "" reads to the end.
func (r *reading) until(want string) {
	r.t.Helper()
	for name := ""; !r.over && (want == "" || !strings.Contains(r.text, want)); {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%v, after %q", err, r.all)
		}
		r.all += line
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case field == "event":
			name = strings.TrimSpace(value)
			r.over = name == "end"
		case field == "data" && name == "output":
			var said struct{ Text string }
			if err := json.Unmarshal([]byte(value), &said); err != nil {
				r.t.Fatalf("%s: %v", value, err)
			}
			r.text += said.Text
		}
	}
	if want != "" && !strings.Contains(r.text, want) {
		r.t.Fatalf("%q does not come: %q", want, r.all)
	}
}

// What a program prints is seen while it runs: on the operator socket, on the page and by a link, also of a call whose
// client follows no events. A secret that comes in two pieces is masked in all three, and viewers get nothing but
// output.
func TestW01_W05_OutputIsSeenMaskedWhileACallRuns(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	b := openPage(t, d, "Ada")
	session := d.session()
	link, viewer := share(t, d, session, map[string]any{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- d.agent.Do(ctx, "POST", "/sessions/"+session+"/calls", map[string]any{"tool": "Bash", "args": map[string]any{
			"command": "until [ -e seen ]; do echo shown; sleep 0.05; done; printf 'first\\nkey=ghp_0123456789'; " +
				"until [ -e go ]; do sleep 0.05; done; printf 'abcdefghijABCDEFGHIJ456789 then\\n\\342\\200\\256last'",
		}}, nil)
	}()
	var running []struct {
		ID string `json:"call_id"`
	}
	if !waitFor(func() bool {
		err := d.agent.Do(t.Context(), "GET", "/calls", nil, &running)
		return err == nil && len(running) == 1
	}) {
		t.Fatal("the call does not run")
	}
	id := running[0].ID
	path := link.path() + "/calls/" + id
	for where, text := range map[string]string{
		"the page": b.text("/sessions/" + session), "a link": viewer.text(link.path()),
	} {
		if !strings.Contains(text, `data-call="`+id+`" data-live`) || !strings.Contains(text, "until [ -e seen ]") {
			t.Errorf("%s does not show the call that runs: %s", where, text)
		}
	}
	other, _ := share(t, d, d.session(), map[string]any{})
	if got := viewer.send("GET", other.path()+"/calls/"+id+"/output", "", nil); got.StatusCode != 404 {
		t.Errorf("by a link of another session: %s", got.Status)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://sandboxd/v1/calls/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	operator, err := unixClient(filepath.Join(d.work, "run/o.sock")).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Body.Close()
	all := map[string]*reading{
		"the operator socket": following(t, operator.Body),
		"the page":            following(t, b.send("GET", "/calls/"+id+"/output", "", nil).Body),
		"a link":              following(t, viewer.send("GET", path+"/output", "", nil).Body),
	}
	for _, r := range all {
		r.until("shown\n")
	}
	touch := func(name string) {
		if err := os.WriteFile(filepath.Join(d.ws, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	touch("seen")
	for _, r := range all {
		r.until("first\n")
	}
	touch("go")
	for where, r := range all {
		r.until("")
		if strings.Contains(r.all, "0123456789") || strings.Contains(r.all, "abcdefghij") {
			t.Errorf("%s: a secret is shown: %s", where, r.all)
		}
		last := "\u202elast"
		if where != "the operator socket" {
			last = `\u{202e}last`
		}
		if !strings.HasSuffix(r.text, "first\nkey=[redacted:github-token] then\n"+last) {
			t.Errorf("%s: %q", where, r.text)
		}
	}
	if said := all["a link"].all; strings.Contains(said, "final_text") || strings.Contains(said, "begin") {
		t.Errorf("a viewer gets more than output: %s", said)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
