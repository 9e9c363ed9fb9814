package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func runAskUser(ctx context.Context, q *Queue, args string) (tool.Output, error) {
	return Tools(q)[0].Run(ctx, tool.In{Session: "s1", CallID: "c1", Args: json.RawMessage(args)}, nil)
}

func TestT49_AskUserWaitsForTheAnswer(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		type got struct {
			out tool.Output
			err error
		}
		done := make(chan got, 1)
		events := q.Subscribe(t.Context())
		go func() {
			out, err := runAskUser(t.Context(), q, `{"question":"Tabs or spaces?","options":["tabs","spaces"]}`)
			done <- got{out, err}
		}()
		if e := <-events; e.Kind != EventAsked {
			t.Errorf("got event %q, want %q", e.Kind, EventAsked)
		}
		item := onlyPending(t, q)
		if item.Type != TypeQuestion || !strings.Contains(string(item.Args), "Tabs or spaces?") ||
			item.SessionID != "s1" {
			t.Errorf("got %+v, want the question", item)
		}
		decide(t, q, item.ID, Decision{Approved: true, Reason: "tabs"})
		g := <-done
		if g.err != nil || g.out.Text != "tabs" || !g.out.Data.(UserAnswer).Answered {
			t.Errorf("got %+v, want the answer", g)
		}
	})
}

func TestT49_NobodyAnswersAndTheModelGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		origin     tool.Origin
		opts       Options
		end        func(*testing.T, *Queue)
	}{
		{"no approver", reasonNobodyQuestions, tool.OriginTool, Options{}, nil},
		{"time is up", reasonTimedOut, tool.OriginTool, Options{Approver: true}, func(*testing.T, *Queue) { time.Sleep(301 * time.Second) }},
		{"the person refuses", reasonQuestion, tool.OriginPerson, Options{Approver: true}, func(t *testing.T, q *Queue) {
			decide(t, q, onlyPending(t, q).ID, Decision{})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				q.opts.Approver = tt.opts.Approver
				done := make(chan tool.Output, 1)
				events := q.Subscribe(t.Context())
				go func() {
					out, err := runAskUser(t.Context(), q, `{"question":"Go on?"}`)
					if err != nil {
						t.Error(err)
					}
					done <- out
				}()
				if tt.end != nil {
					<-events
					tt.end(t, q)
				}
				out := <-done
				if out.Data.(UserAnswer).Answered || !strings.Contains(out.Text, tt.want) || out.Origin != tt.origin {
					t.Errorf("got %+v, want no answer: %q by %q", out, tt.want, tt.origin)
				}
			})
		})
	}
}

func TestAskUserRefusesEmptyQuestions(t *testing.T) {
	q := openQueue(t, Options{Approver: true})
	for _, args := range []string{`{}`, `{"question":" "}`, `[]`, `{"question":1}`, ``} {
		if out, err := runAskUser(t.Context(), q, args); err == nil {
			t.Errorf("%s: got %+v, want an error", args, out)
		}
	}
}

// More questions of one batch than it runs at a time can wait together: a call
// that waits gives up its place exactly once.
func TestAskUserGivesUpItsPlaceInABatch(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		calls := make([]string, 25)
		for i := range calls {
			calls[i] = fmt.Sprintf(`{"question":"number %d?"}`, i)
		}
		done := make(chan []string, 1)
		go func() {
			ask := func(ctx context.Context, args string) string {
				out, err := runAskUser(ctx, q, args)
				if err != nil {
					t.Error(err)
				}
				return out.Text
			}
			readOnly, keep := func(string) bool { return true }, func(s string) string { return s }
			done <- slices.Collect(tool.Batch(t.Context(), calls, readOnly, ask, keep))
		}()
		synctest.Wait()
		items := pending(t, q)
		if len(items) != len(calls) {
			t.Errorf("%d questions wait, want %d", len(items), len(calls))
		}
		for _, i := range items {
			decide(t, q, i.ID, Decision{Approved: true, Reason: "yes to " + string(i.Args)})
		}
		for i, text := range <-done {
			if want := "yes to " + calls[i]; text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		}
	})
}

// One answer serves all users of an account who ask the same in one session.
func TestAnAnswerServesAllUsersOfTheAccount(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		texts := make(chan string, 2)
		for uid := range 2 {
			in := tool.In{
				Session: "s1", CallID: fmt.Sprint("c", uid), Args: json.RawMessage(`{"question":"Tabs?"}`),
				By: &tool.Identity{UID: 1000 + uid},
			}
			go func() {
				out, err := Tools(q)[0].Run(t.Context(), in, nil)
				texts <- fmt.Sprint(out.Text, err)
			}()
		}
		synctest.Wait()
		decide(t, q, onlyPending(t, q).ID, Decision{Approved: true, Reason: "yes"})
		for range 2 {
			if got := <-texts; got != "yes<nil>" {
				t.Errorf("got %s", got)
			}
		}
	})
}

// TestALateAnswerIsOfOneSession: whoever makes the session of that id again, or another account, asks again.
func TestALateAnswerIsOfOneSession(t *testing.T) {
	made := time.Now()
	for _, tt := range []struct {
		name string
		in   tool.In
		used bool
	}{
		{"the same session", tool.In{Account: "a", Session: "s1", SessionMade: made}, true},
		{"one that was made later", tool.In{Account: "a", Session: "s1", SessionMade: made.Add(1)}, false},
		{"one of another account", tool.In{Account: "b", Session: "s1", SessionMade: made}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				run := func(ctx context.Context, in tool.In) chan tool.Output {
					in.Args = json.RawMessage(`{"question":"Which password?"}`)
					done := make(chan tool.Output, 1)
					go func() {
						out, err := Tools(q)[0].Run(ctx, in, nil)
						if err != nil {
							t.Error(err)
						}
						done <- out
					}()
					synctest.Wait()
					return done
				}
				ctx, leave := context.WithCancel(t.Context())
				first := run(ctx, tool.In{Account: "a", Session: "s1", SessionMade: made})
				item := onlyPending(t, q)
				leave()
				<-first
				decide(t, q, item.ID, Decision{Approved: true, Reason: "hunter2"})
				again := run(t.Context(), tt.in)
				if asked := q.Pending() == 1; asked == tt.used {
					t.Errorf("asked again: %v, want %v", asked, !tt.used)
				}
				if q.Pending() == 1 {
					decide(t, q, onlyPending(t, q).ID, Decision{})
				}
				if out := <-again; strings.Contains(out.Text, "hunter2") != tt.used {
					t.Errorf("got %q", out.Text)
				}
			})
		})
	}
}
