package approvals

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tool"
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

func TestGrantsExpire(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		answerNext(t, q, bashCall("x"), Decision{Approved: true, Remember: RememberSession})
		time.Sleep(24 * time.Hour)
		if asked, _ := asks(t, q, bashCall("x")); !asked {
			t.Error("an expired grant still answers")
		}
		if all, err := q.Grants(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("got %+v, %v, want none", all, err)
		}
	})
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
		decide(t, q, id, Decision{Approved: true, Args: json.RawMessage(`{ "command": "ls" }`), Remember: RememberSession})
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
