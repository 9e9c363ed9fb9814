package team

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func numbered(n int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i+1))
	}
	return all
}

// A task, a team and a tree hold so much, and what is beyond is refused with the number.
func TestWhatATeamHoldsIsBounded(t *testing.T) {
	s := open(t, ":memory:")
	links := numbered(maxLinks+1, "task_%d")
	for name, x := range map[string]Task{
		"blocked_by has 1001 tasks": {Subject: "x", BlockedBy: links},
		"blocks has 1001 tasks":     {Subject: "x", Blocks: links},
	} {
		x.Status = Pending
		_, err := s.Create(t.Context(), lead, x, 0)
		if codeOf(err) != "validation_error" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	names := numbered(maxMembers+1, "agent-%d")
	for name, c := range map[string]struct {
		task    string
		members []string
	}{"members": {"", names}, "description": {strings.Repeat("a", 64<<10+1), nil}} {
		_, err := s.CreateTeam(t.Context(), lead, "t", c.task, c.members)
		if codeOf(err) != "validation_error" || !strings.Contains(err.Error(), "too large") {
			t.Errorf("too long %s: got %v", name, err)
		}
	}
	full, err := s.CreateTeam(t.Context(), lead, "full", strings.Repeat("a", 64<<10), names[:maxMembers])
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.AddMember(t.Context(), lead, full.ID, Member{Name: "one-more"})
	if codeOf(err) != "validation_error" || !strings.Contains(err.Error(), "1000 at most") {
		t.Errorf("one member more: %v", err)
	}
	_, err = s.RemoveMember(t.Context(), lead, full.ID, "nobody")
	if e, ok := errors.AsType[*tool.Error](err); !ok || !strings.HasSuffix(e.Hint, "agent-49 and 951 more") {
		t.Errorf("the hint of a long list: %v", err)
	}
	for i := range 999 {
		if _, err := s.CreateTeam(t.Context(), lead, fmt.Sprint("t", i), "", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CreateTeam(t.Context(), lead, "late", "", nil); codeOf(err) != "too_many_teams" {
		t.Errorf("one team more: %v", err)
	}
}

// Each text of a task may be so long, and is one byte too long after that; each is a text.
func TestWhatATaskHolds(t *testing.T) {
	for name, x := range map[string]struct {
		most int
		of   func(text string) Task
	}{
		"subject":     {1000, func(s string) Task { return Task{Subject: s} }},
		"owner":       {256, func(s string) Task { return Task{Subject: "x", Owner: s} }},
		"description": {64 << 10, func(s string) Task { return Task{Subject: "x", Description: s} }},
		"output":      {64 << 10, func(s string) Task { return Task{Subject: "x", Output: s} }},
		"metadata":    {16 << 10, func(s string) Task { return Task{Subject: "x", Metadata: map[string]string{"k": s[1:]}} }},
	} {
		if err := x.of(strings.Repeat("a", x.most)).check(); err != nil {
			t.Errorf("%s of %d bytes: %v", name, x.most, err)
		}
		err := x.of(strings.Repeat("a", x.most+1)).check()
		if want := fmt.Sprintf("%s has %d bytes, %d at most", name, x.most+1, x.most); codeOf(err) != "validation_error" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		for _, bad := range []string{"a\xff", "a\x00"} {
			if err := x.of(bad).check(); name != "metadata" && codeOf(err) != "validation_error" {
				t.Errorf("%s %q: %v", name, bad, err)
			}
		}
	}
}

// An agent joins an active team of its tree by name or id, and is told which there are.
func TestWhichTeamAnAgentJoins(t *testing.T) {
	s := open(t, ":memory:")
	f := &feature{store: s}
	sess := tool.Session{ID: "root", Account: "u"}
	p := PlaceOf(sess)
	hint := func(name string) string {
		err := f.Join(t.Context(), sess, name, "")
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "team_not_found" {
			t.Errorf("join %s: %v", name, err)
			return ""
		}
		return e.Hint
	}
	if got := hint("none"); got != "active teams are: none; make one with TeamCreate" {
		t.Errorf("without a team: %q", got)
	}
	first := done(s.CreateTeam(t.Context(), p, "first", "", []string{"one"}))
	gone := done(s.CreateTeam(t.Context(), p, "gone", "", nil))
	if _, err := s.DeleteTeam(t.Context(), p, gone.ID); err != nil {
		t.Fatal(err)
	}
	if got := hint("gone"); got != "active teams are: first; make one with TeamCreate" {
		t.Errorf("a disbanded team: %q", got)
	}
	for _, name := range []string{"first", first.ID} {
		for _, agent := range []string{"", "one", "two"} {
			if err := f.Join(t.Context(), sess, name, agent); err != nil {
				t.Errorf("%q joins %s: %v", agent, name, err)
			}
		}
	}
	if now := done(s.Team(t.Context(), p, first.ID)); len(now.Members) != 2 || !now.has("two") {
		t.Errorf("members are %+v", now.Members)
	}
}

// What is of jobs alone is refused for a task, and the other way round, and a task without output says its status.
func TestTheToolsTellTasksFromJobs(t *testing.T) {
	s := open(t, ":memory:")
	f := &feature{store: s}
	sess := tool.Session{ID: "root", Account: "u"}
	x := s.make(t, PlaceOf(sess), "x")
	in := func(args string) tool.In {
		return tool.In{Args: json.RawMessage(strings.ReplaceAll(args, "TASK", x.ID))}
	}
	for _, args := range []string{`{}`, `{"id":"TASK","task_id":"TASK"}`, `{"id":"TASK","offset":0}`} {
		if _, err := f.taskOutput(t.Context(), in(args), sess); codeOf(err) != "invalid_arguments" {
			t.Errorf("TaskOutput %s: %v", args, err)
		}
	}
	if _, err := f.taskStop(t.Context(), in(`{"id":"job_1","reason":"r"}`), sess); codeOf(err) != "invalid_arguments" {
		t.Errorf("a reason for a job: %v", err)
	}
	out, err := f.taskOutput(t.Context(), in(`{"id":"TASK"}`), sess)
	if err != nil || out.Text != "(task task_1 has no output; it is pending)" {
		t.Errorf("got %q, %v", out.Text, err)
	}
}

// A call that waits for a task is answered after a while, which it may choose within bounds, and else at once.
func TestHowLongATaskIsWaitedFor(t *testing.T) {
	storetest.FileOnly(t) // a server does not live by the clock of the test
	for args, want := range map[string]time.Duration{
		`{"id":"task_1","timeout":5000}`:                  0,
		`{"id":"task_1","block":true}`:                    30 * time.Second,
		`{"id":"task_1","block":true,"timeout":1500}`:     1500 * time.Millisecond,
		`{"id":"task_1","block":true,"timeout":86400000}`: 10 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, ":memory:")
			sess := tool.Session{ID: "root", Account: "u"}
			s.make(t, PlaceOf(sess), "x")
			began := time.Now()
			out, err := (&feature{store: s}).taskOutput(t.Context(), tool.In{Args: json.RawMessage(args)}, sess)
			if took := time.Since(began); err != nil || took != want || !strings.Contains(out.Text, "is pending") {
				t.Errorf("%s: got %q after %v, %v, want %v", args, out.Text, took, err, want)
			}
		})
	}
}
