package approvals

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// to is a connection that the settings ask about.
func to(endpoint string) tool.Connecting {
	return tool.Connecting{
		Host: strings.TrimSuffix(endpoint, ":22"), Port: 443, Protocol: "tls", Via: "transparent", Endpoint: endpoint,
		Workspace: "/src", Why: []tool.Reason{{Rule: "network.unlisted: ask", Message: "Bash connects to " + endpoint}},
	}
}

// asking files a question about a connection for start.
func asking(q *Queue, c tool.Connecting) func(context.Context, *tool.Call) (tool.Approval, error) {
	return func(ctx context.Context, call *tool.Call) (tool.Approval, error) { return q.Connection(ctx, call, c) }
}

// TestOneQuestionForAHostAndSession: however many connections wait, of whatever call.
func TestOneQuestionForAHostAndSession(t *testing.T) {
	inBubble(t, Options{Announced: true}, func(t *testing.T, q *Queue) {
		npm, git := bashCall("npm ci"), bashCall("git fetch")
		other := bashCall("npm ci")
		other.Session.ID = "s2"
		done := []<-chan outcome{
			start(t.Context(), asking(q, to("a.test")), npm), start(t.Context(), asking(q, to("a.test")), npm),
			start(t.Context(), asking(q, to("a.test")), git),
		}
		item := onlyPending(t, q)
		if item.Type != TypeConnection || item.Connection.Endpoint != "a.test" || item.Waiting != 3 || item.CallID != npm.ID ||
			!strings.Contains(string(item.Args), "npm ci") || item.Why[0].Rule != "network.unlisted: ask" {
			t.Errorf("got %+v", item)
		}
		apart := []<-chan outcome{
			start(t.Context(), asking(q, to("a.test:22")), npm), start(t.Context(), asking(q, to("a.test")), other),
		}
		if n := q.Pending(); n != 3 {
			t.Errorf("%d questions wait, want one for each endpoint and session", n)
		}
		decide(t, q, item.ID, Decision{Approved: true, By: "ann"})
		for _, c := range done {
			if a := <-c; a.err != nil || !a.Approved {
				t.Errorf("got %+v", a)
			}
		}
		if err := q.CancelSession(t.Context(), "s1", "over"); err != nil {
			t.Fatal(err)
		}
		if a := <-apart[0]; a.Approved {
			t.Error("an answer for the host opened another port")
		}
		decide(t, q, onlyPending(t, q).ID, Decision{})
		if a := <-apart[1]; a.Approved || a.Reason != reasonConnection {
			t.Errorf("got %+v", a)
		}
		if asked := start(t.Context(), asking(q, to("a.test")), npm); q.Pending() != 1 {
			t.Errorf("an answer for once was remembered: %+v", <-asked)
		}
		_ = q.CancelSession(t.Context(), "s1", "over")
	})
}

// TestAnAnswerAboutAConnectionIsForThoseWhoseQuestionIsTheSame: what differs is asked about by itself, also while the
// other question waits.
func TestAnAnswerAboutAConnectionIsForThoseWhoseQuestionIsTheSame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		byRule bool
		other  func(*tool.Call, *tool.Connecting)
	}{
		{"another uid", false, func(c *tool.Call, _ *tool.Connecting) { c.Request.RunsAs = "uid 64102" }},
		{"another account", false, func(c *tool.Call, _ *tool.Connecting) { c.Session.Account = "other" }},
		{"a session of the same id that was made later", false, func(c *tool.Call, _ *tool.Connecting) {
			c.Session.Created = c.Session.Created.Add(time.Hour)
		}},
		{"another workspace", false, func(_ *tool.Call, k *tool.Connecting) { k.Workspace = "/other" }},
		{"another rule", true, func(_ *tool.Call, k *tool.Connecting) { k.Why[0].Rule = "acme.y" }},
		{"another method", true, func(_ *tool.Call, k *tool.Connecting) { k.Method = "DELETE" }},
		{"another path", true, func(_ *tool.Call, k *tool.Connecting) { k.Path = "/admin" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{Announced: true}, func(t *testing.T, q *Queue) {
				question := func() tool.Connecting {
					k := to("a.test")
					if k.ByRule = tt.byRule; k.ByRule {
						k.Why[0].Rule, k.Method, k.Path = "acme.x", "GET", "/"
					}
					return k
				}
				call, other, changed := bashCall("npm ci"), bashCall("npm ci"), question()
				tt.other(other, &changed)
				first := start(t.Context(), asking(q, question()), call)
				again := start(t.Context(), asking(q, question()), bashCall("npm ci"))
				id := onlyPending(t, q).ID
				second := start(t.Context(), asking(q, changed), other)
				if n := q.Pending(); n != 2 {
					t.Errorf("%d questions wait, want 2", n)
				}
				decide(t, q, id, Decision{Approved: true, By: "ann"})
				for _, same := range []<-chan outcome{first, again} {
					if a := <-same; a.err != nil || !a.Approved {
						t.Errorf("the same question: %+v", a)
					}
				}
				if err := q.CancelSession(t.Context(), "s1", "over"); err != nil {
					t.Fatal(err)
				}
				if a := <-second; a.Approved {
					t.Errorf("the other question was answered as well: %+v", a)
				}
			})
		})
	}
}

// TestAnAnswerAboutAHostIsRemembered: for a session or always, in one workspace, whatever
// tool and directory; never where a rule asks.
func TestAnAnswerAboutAHostIsRemembered(t *testing.T) {
	inBubble(t, Options{Announced: true}, func(t *testing.T, q *Queue) {
		asks := func(c *tool.Call, conn tool.Connecting) (bool, tool.Approval) {
			t.Helper()
			done := start(t.Context(), asking(q, conn), c)
			asked := q.Pending() > 0
			if asked {
				_ = q.CancelSession(t.Context(), c.Session.ID, "test")
			}
			return asked, (<-done).Approval
		}
		answer := func(c *tool.Call, conn tool.Connecting, d Decision) {
			t.Helper()
			done := start(t.Context(), asking(q, conn), c)
			decide(t, q, onlyPending(t, q).ID, d)
			<-done
		}
		call, other := bashCall("npm ci"), bashCall("make")
		other.In.Dir, other.Session.Dir, other.Spec.Name = "/src/sub", "/src/sub", "Exec"
		answer(call, to("a.test"), Decision{Approved: true, Remember: RememberSession})
		if asked, a := asks(other, to("a.test")); asked || !a.Approved {
			t.Errorf("another call of the session: asked %v, %+v", asked, a)
		}
		if asked, _ := asks(other, to("a.test:22")); !asked {
			t.Error("another port is not asked about")
		}
		next := bashCall("npm ci")
		next.Session.ID = "s2"
		if asked, _ := asks(next, to("a.test")); !asked {
			t.Error("another session is not asked")
		}
		answer(call, to("tel.test"), Decision{Remember: RememberAlways, Reason: "telemetry"})
		if asked, a := asks(next, to("tel.test")); asked || a.Approved || a.Reason != "telemetry" {
			t.Errorf("a refusal for always: asked %v, %+v", asked, a)
		}
		elsewhere := to("tel.test")
		elsewhere.Workspace = "/other"
		if asked, _ := asks(next, elsewhere); !asked {
			t.Error("another workspace is not asked")
		}
		ruled := to("a.test")
		ruled.ByRule, ruled.Why = true, []tool.Reason{{Rule: "acme.x", Message: "m"}}
		if asked, _ := asks(call, ruled); !asked {
			t.Error("a grant answered for a rule")
		}
		done := start(t.Context(), asking(q, ruled), call)
		if _, err := q.Decide(t.Context(), onlyPending(t, q).ID, Decision{Approved: true, Remember: RememberSession}); err == nil {
			t.Error("an answer to a rule is remembered")
		}
		_ = q.CancelSession(t.Context(), "s1", "over")
		<-done
		grants, err := q.Grants(t.Context())
		var about []string
		for _, g := range grants {
			about = append(about, g.Tool+string(g.Args))
		}
		slices.Sort(about)
		want := []string{connectionGrant + `{"endpoint":"a.test"}`, connectionGrant + `{"endpoint":"tel.test"}`}
		if err != nil || !slices.Equal(about, want) {
			t.Errorf("got %q, %v", about, err)
		}
	})
}

// TestNobodyHearsOfAConnection: it is refused at once, while a call waits as ever.
func TestNobodyHearsOfAConnection(t *testing.T) {
	refused := func(t *testing.T, q *Queue) bool {
		t.Helper()
		done := start(t.Context(), asking(q, to("a.test")), bashCall("npm ci"))
		if q.Pending() > 0 {
			_ = q.CancelSession(t.Context(), "s1", "over")
			<-done
			return false
		}
		a := <-done
		return a.err == nil && !a.Approved && a.Code == CodeNoApprover && strings.HasPrefix(a.Reason, reasonNoConnection)
	}
	synctest.Test(t, func(t *testing.T) {
		if q := openQueue(t, Options{Announced: true}); !refused(t, q) {
			t.Error("asked without an approver")
		}
	})
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		if !refused(t, q) {
			t.Error("asked though nobody watches")
		}
		done := q.Watch()
		if refused(t, q) {
			t.Error("refused though somebody watches")
		}
		done()
		done()
		if !refused(t, q) {
			t.Error("asked though nobody watches any more")
		}
		routes := q.Part(part.Host{Events: &events.Broker{}}).Routes
		routetest.Call(t, routes, tool.RoleOperator, "GET /approvals", "")
		time.Sleep(10*time.Second - 1)
		if refused(t, q) {
			t.Error("refused though somebody lists the questions")
		}
		time.Sleep(time.Nanosecond)
		if !refused(t, q) {
			t.Error("asked though the one who looked is gone")
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			routetest.Stream(ctx, routes, tool.RoleOperator, "GET /approvals/stream")
			close(over)
		}()
		synctest.Wait()
		if refused(t, q) {
			t.Error("refused though a stream is open")
		}
		cancel()
		<-over
		if !refused(t, q) {
			t.Error("asked though the stream ended")
		}
		call := start(t.Context(), q.Execution, bashCall("git push"))
		if q.Pending() != 1 {
			t.Error("a call does not wait")
		}
		_ = q.CancelSession(t.Context(), "s1", "over")
		<-call
	})
	inBubble(t, Options{Announced: true}, func(t *testing.T, q *Queue) {
		if refused(t, q) {
			t.Error("refused though questions are announced")
		}
	})
}
