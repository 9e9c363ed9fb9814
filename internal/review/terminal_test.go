package review

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/shellparse"
)

// queueAPI answers as the daemon does, from a queue in memory.
type queueAPI struct{ q *approvals.Queue }

func (a queueAPI) Do(ctx context.Context, method, path string, in, out any) error {
	u, err := url.Parse(path)
	if err != nil {
		return err
	}
	id := strings.TrimPrefix(strings.TrimPrefix(u.Path, "/approvals"), "/")
	var answer any
	switch {
	case method == http.MethodGet && id == "":
		f := approvals.Filter{Status: u.Query().Get("status")}
		part := u.Query().Get("limit") + " " + u.Query().Get("offset")
		if _, err := fmt.Sscanf(part, "%d %d", &f.Limit, &f.Offset); err != nil {
			return err
		}
		page, err := a.q.List(ctx, f)
		if err != nil {
			return err
		}
		items := []approvals.Item{}
		for item, err := range a.q.Items(ctx, page) {
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		answer = items
	case method == http.MethodGet:
		answer, err = a.q.Get(ctx, id)
	case method == http.MethodPost:
		d := in.(Answer)
		answer, err = a.q.Decide(ctx, id, approvals.Decision{
			Approved: d.Approved, Reason: d.Reason, Remember: d.Remember, Args: d.Args, By: "tester",
		})
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

// terminal drives a watcher as a person does.
type terminal struct {
	t    *testing.T
	q    *approvals.Queue
	out  *lockedBuffer
	keys chan rune
	done chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func onTerminal(t *testing.T, f func(*terminal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, approvals.Schema())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		q, err := approvals.New(t.Context(), db, approvals.Options{Approver: true})
		if err != nil {
			t.Fatal(err)
		}
		term := &terminal{t: t, q: q, out: &lockedBuffer{}, keys: make(chan rune), done: make(chan error, 1)}
		w := &watcher{api: NewQueue(queueAPI{q}), out: term.out, screen: Screen{Width: 80}}
		go func() { term.done <- w.run(t.Context(), term.keys) }()
		f(term)
		close(term.keys)
		if err := <-term.done; err != nil {
			t.Error(err)
		}
		if err := q.Close("end of test"); err != nil {
			t.Error(err)
		}
	})
}

// wait lets the watcher see what is new and the person read it.
func (x *terminal) wait() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func (x *terminal) press(keys string) {
	for _, k := range keys {
		x.keys <- k
	}
	synctest.Wait()
}

func (x *terminal) see(want ...string) {
	x.t.Helper()
	for _, text := range want {
		if !strings.Contains(x.out.String(), text) {
			x.t.Errorf("the screen lacks %q:\n%s", text, x.out.String())
		}
	}
}

func (x *terminal) call(command string) <-chan tool.Approval {
	done := make(chan tool.Approval, 1)
	go func() {
		a, err := x.q.Execution(context.Background(), askedCall(command))
		if err != nil {
			x.t.Error(err)
		}
		done <- a
	}()
	synctest.Wait()
	return done
}

func askedCall(command string) *tool.Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	c := tool.NewCall(tool.Request{Tool: "Bash", Args: args})
	c.Session = tool.Session{ID: "ses_1", Account: "default-admin"}
	c.Spec = tool.Spec{Name: "Bash", Description: "Runs a command.", Class: tool.ClassExec}
	c.In.Dir = "/src"
	c.Facts = tool.Facts{Class: tool.ClassExec, Mode: "default", Uses: guard.Uses{
		Script: &shellparse.Script{
			Commands: []shellparse.Command{
				{Name: "git", Args: []shellparse.Word{{Text: "push"}, {Text: "--force"}}, Via: []string{"pipeline"}},
			},
		},
		Paths: []guard.PathUse{{Path: "/src/log", Op: guard.Write}, {Path: "/src/in", Op: guard.Read}},
		Hosts: []string{"git.example.com"},
	}}
	c.Settings.AllowedWritePaths = []string{"/src"}
	c.Decision = tool.Decision{
		By:      tool.ByMode,
		Reasons: []tool.Reason{{Rule: "mode:default", Message: "the mode asks before programs run"}},
	}
	c.Digest = command
	return c
}
