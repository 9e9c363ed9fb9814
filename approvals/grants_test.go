package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func askOnce(command string) *tool.Call {
	c := bashCall(command)
	c.Spec.Execution = tool.ExecAskOnce
	c.Decision.By = tool.ByTool
	return c
}

// answerNext decides the question of call c and returns what c got.
func answerNext(t *testing.T, q *Queue, c *tool.Call, d Decision) tool.Approval {
	t.Helper()
	done := start(t.Context(), q.Execution, c)
	decide(t, q, onlyPending(t, q).ID, d)
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.Approval
}

// asks reports whether c is asked about; the question is then refused.
func asks(t *testing.T, q *Queue, c *tool.Call) (bool, tool.Approval) {
	t.Helper()
	done := start(t.Context(), q.Execution, c)
	asked := q.Pending() > 0
	if asked {
		if err := q.CancelSession(t.Context(), c.Session.ID, "test"); err != nil {
			t.Fatal(err)
		}
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	return asked, got.Approval
}

func TestA06_AskOnceRemembersBothAnswers(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		answerNext(t, q, askOnce("yes"), Decision{Approved: true, By: "ann"})
		answerNext(t, q, askOnce("no"), Decision{Reason: "never"})
		if asked, a := asks(t, q, askOnce("yes")); asked || !a.Approved || a.By != "ann" {
			t.Errorf("same arguments: asked %v, got %+v", asked, a)
		}
		if asked, a := asks(t, q, askOnce("no")); asked || a.Approved || a.Reason != "never" {
			t.Errorf("remembered refusal: asked %v, got %+v", asked, a)
		}
		if asked, _ := asks(t, q, askOnce("other")); !asked {
			t.Error("other arguments were not asked about")
		}
		elsewhere := askOnce("yes")
		elsewhere.Session.ID = "s2"
		if asked, _ := asks(t, q, elsewhere); !asked {
			t.Error("another session used the answer")
		}
	})
}

func TestA06_KeyIgnoresTheOrderOfFields(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := askOnce("x")
		c.In.Args = json.RawMessage(`{"a": 1, "b": [2]}`)
		answerNext(t, q, c, Decision{Approved: true})
		c = askOnce("x")
		c.In.Args = json.RawMessage(`{"b":[2],"a":1}`)
		if asked, a := asks(t, q, c); asked || !a.Approved {
			t.Errorf("asked %v, got %+v", asked, a)
		}
	})
}

func TestA06_NobodysRefusalIsNotRemembered(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		done := start(t.Context(), q.Execution, askOnce("x"))
		time.Sleep(301 * time.Second)
		<-done
		if asked, _ := asks(t, q, askOnce("x")); !asked {
			t.Error("a timeout was remembered as a refusal")
		}
	})
}

func TestA07_WhatAGrantMayAnswer(t *testing.T) {
	for _, tt := range []struct {
		name      string
		execution tool.ExecutionPolicy
		by        tool.By
		want      bool
	}{
		{"a mode's ask", tool.ExecAuto, tool.ByMode, true},
		{"a mode's ask about an ask-once tool", tool.ExecAskOnce, tool.ByMode, true},
		{"ask-always asks every time", tool.ExecAskAlways, tool.ByTool, false},
		{"ask-always under a mode that asks", tool.ExecAskAlways, tool.ByMode, false},
		{"a rule's ask", tool.ExecAuto, tool.ByRule, false},
		{"a rule's ask about an ask-once tool", tool.ExecAskOnce, tool.ByRule, false},
		{"a hook's ask", tool.ExecAuto, tool.ByHook, false},
		{"the floor's ask", tool.ExecAuto, tool.ByFloor, false},
		{"a decision without a layer", tool.ExecAuto, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: RememberAlways})
				c := bashCall("x")
				c.Spec.Execution, c.Decision.By = tt.execution, tt.by
				asked, a := asks(t, q, c)
				if asked == tt.want || a.Approved != tt.want {
					t.Errorf("asked %v, got %+v, want answered by the grant: %v", asked, a, tt.want)
				}
			})
		})
	}
}

func TestAGrantDoesNotAnswerAHookThatAsksBesideTheTool(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		answerNext(t, q, askOnce("x"), Decision{Approved: true})
		c := askOnce("x")
		c.Advice.Ask = true
		if asked, _ := asks(t, q, c); !asked {
			t.Error("the grant answered for the hook")
		}
	})
}

func TestA17_RememberScopes(t *testing.T) {
	change := map[string]func(*tool.Call){
		"same":            func(*tool.Call) {},
		"another session": func(c *tool.Call) { c.Session.ID = "s2" },
		"another account": func(c *tool.Call) { c.Session.Account = "eve" },
		"another dir":     func(c *tool.Call) { c.In.Dir = "/elsewhere" },
		"another tool":    func(c *tool.Call) { c.Spec.Name = "Write" },
		"other arguments": func(c *tool.Call) { c.In.Args = json.RawMessage(`{"command":"y"}`) },
	}
	for scope, answers := range map[string]map[string]bool{
		RememberOnce:    {},
		RememberSession: {"same": true},
		RememberAlways:  {"same": true, "another session": true},
	} {
		for name, f := range change {
			t.Run(scope+"/"+name, func(t *testing.T) {
				inBubble(t, Options{}, func(t *testing.T, q *Queue) {
					answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: scope})
					c := bashCall("x")
					f(c)
					if asked, _ := asks(t, q, c); asked == answers[name] {
						t.Errorf("asked %v, want %v", asked, !answers[name])
					}
				})
			})
		}
	}
}

func TestAGrantAnswersForOneUserOfAnAccount(t *testing.T) {
	for _, scope := range []string{RememberSession, RememberAlways} {
		inBubble(t, Options{}, func(t *testing.T, q *Queue) {
			as := func(rights string) *tool.Call {
				c := askOnce("x")
				c.Request.RunsAs = rights
				return c
			}
			answerNext(t, q, as("uid 1, gid 1"), Decision{Approved: true, Remember: scope})
			for rights, want := range map[string]bool{"": true, "uid 2, gid 1": true, "uid 1, gid 1": false} {
				if asked, _ := asks(t, q, as(rights)); asked != want {
					t.Errorf("%s, a call as %q: asked %v, want %v", scope, rights, asked, want)
				}
			}
			answerNext(t, q, as("uid 2, gid 1"), Decision{Approved: true, Remember: scope}) // replaces no other user's
			grants, err := q.Grants(t.Context())
			if err != nil || len(grants) != 2 || grants[0].RunsAs == grants[1].RunsAs {
				t.Errorf("got %+v, %v", grants, err)
			}
		})
	}
}

func TestA17_WhatCannotAnswerCannotBeRemembered(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := bashCall("x")
		c.Decision.By = tool.ByRule
		done := start(t.Context(), q.Execution, c)
		item := onlyPending(t, q)
		for _, scope := range []string{RememberSession, RememberAlways, "forever"} {
			_, err := q.Decide(t.Context(), item.ID, Decision{Approved: true, Remember: scope})
			wantCode(t, err, "invalid_decision")
		}
		decide(t, q, item.ID, Decision{Approved: true, Remember: RememberOnce})
		if got := <-done; !got.Approved {
			t.Errorf("got %+v: a wrong answer ended the question", got)
		}
	})
}

func TestGrantsAreListedCountedAndRevoked(t *testing.T) {
	inBubble(t, Options{AlwaysGrant: time.Hour}, func(t *testing.T, q *Queue) {
		answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: RememberAlways, By: "ann"})
		asks(t, q, bashCall("x"))
		asks(t, q, bashCall("x"))
		all, err := q.Grants(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("got %+v, %v, want one grant", all, err)
		}
		g := all[0]
		if g.Author != "ann" || g.Hits != 2 || g.LastUsedAt == nil || string(g.Args) != `{"command":"x"}` || g.Dir != "/src" {
			t.Errorf("got %+v", g)
		}
		if got, want := g.ExpiresAt.Sub(g.CreatedAt), time.Hour; got != want {
			t.Errorf("grant lives %v, want %v", got, want)
		}
		if err := q.Revoke(t.Context(), g.ID, "ann"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, q.Revoke(t.Context(), g.ID, "ann"), "not_found")
		if asked, _ := asks(t, q, bashCall("x")); !asked {
			t.Error("a revoked grant still answers")
		}
	})
}

// TestRevokingAGrantIsRecordedAndTold: who lifted an answer is asked later, too.
func TestRevokingAGrantIsRecordedAndTold(t *testing.T) {
	var recorded []Event
	var fail error
	record := func(_ context.Context, e Event) error {
		if e.Kind == EventRevoked && fail == nil {
			recorded = append(recorded, e)
		}
		return fail
	}
	inBubble(t, Options{Record: record}, func(t *testing.T, q *Queue) {
		answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: RememberAlways, By: "ann"})
		all, err := q.Grants(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("got %+v, %v, want one grant", all, err)
		}
		told := q.Subscribe(t.Context())
		wantCode(t, q.Revoke(t.Context(), "grt_none", "eve"), "not_found")
		fail = errors.New("disk full")
		if err := q.Revoke(t.Context(), all[0].ID, "bob"); !errors.Is(err, fail) {
			t.Errorf("a revocation that cannot be recorded: got %v", err)
		}
		fail = nil
		if asked, a := asks(t, q, bashCall("x")); asked || !a.Approved {
			t.Error("a revocation that could not be recorded counts")
		}
		if err := q.Revoke(t.Context(), all[0].ID, "bob"); err != nil {
			t.Fatal(err)
		}
		want := Event{Kind: EventRevoked, Grant: all[0].ID, By: "bob", Item: Item{Account: "acc", Tool: "Bash"}}
		if !reflect.DeepEqual(recorded, []Event{want}) {
			t.Errorf("recorded %+v, want %+v", recorded, want)
		}
		if got := <-told; !reflect.DeepEqual(got, want) {
			t.Errorf("told %+v, want %+v", got, want)
		}
	})
}

// TestAGrantThatIsRevokedWhileItIsLookedUpDoesNotAnswer: whoever revokes it may
// come between the reading of a grant and its use.
func TestAGrantThatIsRevokedWhileItIsLookedUpDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// In a file reads do not wait for writes.
		q, closeAll := openQueueAt(t, filepath.Join(t.TempDir(), "q.db"), Options{Approver: true})
		defer closeAll()
		answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: RememberAlways})
		var done <-chan outcome
		err := q.db.Write(t.Context(), func(tx *sql.Tx) error {
			done = start(t.Context(), q.Execution, bashCall("x")) // it has read the grant, and waits to count its use
			_, err := tx.Exec(`DELETE FROM approval_grants`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		decide(t, q, onlyPending(t, q).ID, Decision{Reason: "asked after all"})
		if got := <-done; got.Approved || got.Reason != "asked after all" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestGrantsExpire(t *testing.T) {
	for scope, life := range map[string]time.Duration{
		RememberSession: 24 * time.Hour, RememberAlways: 90 * 24 * time.Hour,
	} {
		inBubble(t, Options{}, func(t *testing.T, q *Queue) {
			answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: scope})
			time.Sleep(life - time.Second)
			if asked, a := asks(t, q, bashCall("x")); asked || !a.Approved {
				t.Errorf("%s: asked %v, got %+v, want that it still answers", scope, asked, a)
			}
			time.Sleep(time.Second)
			if asked, _ := asks(t, q, bashCall("x")); !asked {
				t.Errorf("%s: an expired grant still answers", scope)
			}
			if all, err := q.Grants(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("%s: got %+v, %v, want none", scope, all, err)
			}
		})
	}
}

// Nobody is asked once for all results, or for all changes.
func TestAnAnswerAboutAResultOrChangesIsNotRemembered(t *testing.T) {
	changes := func(q *Queue) func(context.Context, *tool.Call) (tool.Approval, error) {
		return func(ctx context.Context, c *tool.Call) (tool.Approval, error) {
			return q.Changes(ctx, c, tool.Changing{})
		}
	}
	for name, ask := range map[string]func(*Queue) func(context.Context, *tool.Call) (tool.Approval, error){
		"changes": changes,
		"result":  func(q *Queue) func(context.Context, *tool.Call) (tool.Approval, error) { return q.Result },
	} {
		inBubble(t, Options{}, func(t *testing.T, q *Queue) {
			done := start(t.Context(), ask(q), bashCall("x"))
			id := onlyPending(t, q).ID
			for _, scope := range []string{RememberSession, RememberAlways} {
				if _, err := q.Decide(t.Context(), id, Decision{Approved: true, Remember: scope}); err == nil {
					t.Errorf("%s: remembered for %s", name, scope)
				}
			}
			decide(t, q, id, Decision{Approved: true})
			<-done
			done = start(t.Context(), ask(q), bashCall("x"))
			if q.Pending() != 1 {
				t.Errorf("%s: the next call is not asked about", name)
			}
			_ = q.CancelSession(t.Context(), "s1", "over")
			<-done
		})
	}
}

func TestARememberedRefusalWins(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		elsewhere := bashCall("x")
		elsewhere.Session.ID = "s2"
		answerNext(t, q, bashCall("x"), Decision{Remember: RememberSession, Reason: "no"})
		answerNext(t, q, elsewhere, Decision{Approved: true, Remember: RememberAlways})
		if asked, a := asks(t, q, bashCall("x")); asked || a.Approved {
			t.Errorf("asked %v, got %+v, want the refusal", asked, a)
		}
	})
}

func TestARememberedRefusalWinsOverAnOlderApproval(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		elsewhere := bashCall("x")
		elsewhere.Session.ID = "s2"
		answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: RememberSession})
		time.Sleep(time.Second)
		answerNext(t, q, elsewhere, Decision{Remember: RememberAlways, Reason: "no"})
		if asked, a := asks(t, q, bashCall("x")); asked || a.Approved {
			t.Errorf("asked %v, got %+v, want the refusal", asked, a)
		}
	})
}

// An id that is used again is another session: it has no grants, neither those of before
// nor one from a question that was still open.
func TestAGrantEndsWithItsSession(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		first := func(command string) *tool.Call {
			c := askOnce(command)
			c.Session.Created = time.Unix(1, 1)
			return c
		}
		second := func(command string) *tool.Call {
			c := first(command)
			c.Session.Created = time.Unix(1, 2)
			return c
		}
		answerNext(t, q, first("kept"), Decision{Approved: true})
		answerNext(t, q, first("always"), Decision{Approved: true, Remember: RememberAlways})
		open := start(t.Context(), q.Execution, first("open"))
		decide(t, q, onlyPending(t, q).ID, Decision{Approved: true}) // after the second session was made
		<-open
		if asked, _ := asks(t, q, second("always")); asked {
			t.Error("a grant for every session did not answer in the second")
		}
		for _, command := range []string{"kept", "open"} {
			if asked, _ := asks(t, q, first(command)); asked {
				t.Errorf("%s: the session itself is asked", command)
			}
			if asked, _ := asks(t, q, second(command)); !asked {
				t.Errorf("%s: a grant of the first session answered in the second", command)
			}
		}
		if err := q.db.Write(t.Context(), func(tx *sql.Tx) error { return q.Part(part.Host{}).Deleted(tx, "s1") }); err != nil {
			t.Fatal(err)
		}
		left, err := q.Grants(t.Context())
		if err != nil || len(left) != 1 || left[0].Scope != RememberAlways {
			t.Errorf("of a deleted session are left %+v, %v", left, err)
		}
	})
}

// TestAnEditIsJudgedWhenItIsSubmitted: its digest goes with the answer, also to a caller
// that comes later. What would be denied is no answer, and the question waits on.
func TestAnEditIsJudgedWhenItIsSubmitted(t *testing.T) {
	var judged []string
	edited := func(_ context.Context, of Item, args json.RawMessage) (string, error) {
		judged = append(judged, string(of.Args)+" "+string(args))
		if strings.Contains(string(args), "bad") {
			return "", errors.New("a rule denies it")
		}
		return "digest of the edit", nil
	}
	inBubble(t, Options{Edited: edited}, func(t *testing.T, q *Queue) {
		c := bashCall("rm -rf /")
		ctx, leave := context.WithCancel(t.Context())
		done := start(ctx, q.Execution, c)
		id := onlyPending(t, q).ID
		leave()
		<-done
		_, err := q.Decide(t.Context(), id, Decision{Approved: true, Args: json.RawMessage(`{"command":"bad"}`)})
		wantCode(t, err, "invalid_decision")
		decide(t, q, id, Decision{Approved: true, Args: json.RawMessage(`{"command": "ls"}`)})
		late, err := q.Execution(t.Context(), c)
		if err != nil || !late.Approved || string(late.Args) != `{"command":"ls"}` || late.Digest != "digest of the edit" {
			t.Errorf("got %+v, %v", late, err)
		}
		want := []string{`{"command":"rm -rf /"} {"command":"bad"}`, `{"command":"rm -rf /"} {"command":"ls"}`}
		if !slices.Equal(judged, want) {
			t.Errorf("judged %q", judged)
		}
		_, err = q.Decide(t.Context(), id, Decision{Approved: true, Args: json.RawMessage(`{"command":"id"}`)})
		wantCode(t, err, "already_decided")
	})
}

func TestEditedArguments(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		done := start(t.Context(), q.Execution, bashCall("rm -rf /"))
		id := onlyPending(t, q).ID
		for _, bad := range []string{`[1]`, `{"a":1,"a":2}`, `{`, `"x"`, `{} {}`} {
			_, err := q.Decide(t.Context(), id, Decision{Approved: true, Args: json.RawMessage(bad)})
			wantCode(t, err, "invalid_decision")
		}
		_, err := q.Decide(t.Context(), id, Decision{Args: json.RawMessage(`{}`)})
		wantCode(t, err, "invalid_decision")
		decide(t, q, id, Decision{
			Approved: true, Args: json.RawMessage(`{ "command": "ls" }`), Remember: RememberSession,
		})
		if got := <-done; !got.Approved || string(got.Args) != `{"command":"ls"}` {
			t.Errorf("got %+v args %s, want the edit", got, got.Args)
		}
		if asked, _ := asks(t, q, bashCall("rm -rf /")); !asked {
			t.Error("remembered what the person had changed")
		}
		if asked, a := asks(t, q, bashCall("ls")); asked || !a.Approved {
			t.Error("did not remember what the person approved")
		}
	})
}
