package team

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

var lead = Place{Space: "root", Account: "u", Session: "root", Agent: self}

func at(agent string) Place {
	return Place{Space: "root", Account: "u", Session: "s-" + agent, Agent: agent}
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	db, err := storetest.At(t.Context(), t, path, Definition().Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return New(db)
}

// done is a step that must not fail.
func done[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func (s *Store) make(t testing.TB, p Place, subject string) Task {
	t.Helper()
	x, err := s.Create(t.Context(), p, Task{Subject: subject, Status: Pending}, provenance.ByModel)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ptr[T any](v T) *T { return &v }

func TestN11_TasksHaveTheNumbersOfTheirSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	a, b := s.make(t, lead, "one"), s.make(t, at("x"), "two")
	other := s.make(t, Place{Space: "other"}, "three")
	if a.ID != "task_1" || b.ID != "task_2" || other.ID != "task_1" || !a.CreatedAt.Equal(a.UpdatedAt) {
		t.Errorf("got %s, %s, %s", a.ID, b.ID, other.ID)
	}
	want := Task{
		Subject: "all", Description: "d", Status: InProgress, Owner: "o", Output: "out", BlockedBy: []string{"task_1"},
		Blocks: []string{"task_9"}, Metadata: map[string]string{"k": "v"},
	}
	want = done(s.Create(t.Context(), lead, want, provenance.ByWeb))
	got, err := open(t, path).Get(t.Context(), lead, "task_3") // after a restart
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Task{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := s.Get(t.Context(), Place{Space: "other"}, "task_2"); codeOf(err) != "task_not_found" {
		t.Errorf("a task of another space: %v", err)
	}
}

func TestN14_FinalIsFinal(t *testing.T) {
	s := open(t, ":memory:")
	for _, from := range Statuses {
		for _, to := range Statuses {
			x, err := s.Create(t.Context(), lead, Task{Subject: "x", Status: from}, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, is, err := s.Update(t.Context(), lead, x.ID, Change{Status: ptr(string(to)), Output: ptr("new")}, 0)
			if from.Final() {
				now, _ := s.Get(t.Context(), lead, x.ID)
				want := fmt.Sprintf("Cannot transition task from %s to %s", from, to)
				if codeOf(err) != "invalid_status_transition" || err.Error() != want || now.Output != "" || now.Status != from {
					t.Errorf("%s to %s: %v, %+v", from, to, err, now)
				}
			} else if err != nil || is.Status != to {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
	if _, _, err := s.Update(t.Context(), lead, "task_99", Change{}, 0); codeOf(err) != "task_not_found" ||
		err.Error() != "Task not found: task_99" {
		t.Errorf("got %v", err)
	}
}

func TestN16_StatusesAreReadInBothSpellings(t *testing.T) {
	for text, want := range map[string]Status{
		"inProgress": InProgress, "in_progress": InProgress, "pending": Pending, "in-progress": "", "INPROGRESS": "",
		"": "", "done": "", "complet_ed": "",
	} {
		got, err := ParseStatus(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

func TestN13_WhatIsWrongIsRefusedAsAWhole(t *testing.T) {
	s := open(t, ":memory:")
	x := s.make(t, lead, "x")
	long := strings.Repeat("a", 64<<10+1)
	for name, c := range map[string]Change{
		"an unknown status":   {Status: ptr("done"), Owner: ptr("me")},
		"an empty subject":    {Subject: ptr(" "), Owner: ptr("me")},
		"a long output":       {Output: &long, Owner: ptr("me")},
		"two lines":           {Owner: ptr("a\nb")},
		"no text":             {Description: ptr("\xff"), Owner: ptr("me")},
		"a link to no task":   {BlockedBy: &[]string{"job_1"}, Owner: ptr("me")},
		"a link to task_01":   {Blocks: &[]string{"task_01"}, Owner: ptr("me")},
		"too much metadata":   {Metadata: &map[string]string{"k": strings.Repeat("v", maxMetadata)}, Owner: ptr("me")},
		"an unknown expected": {Expect: &Expect{Status: ptr("done")}, Owner: ptr("me")},
	} {
		if _, _, err := s.Update(t.Context(), lead, x.ID, c, 0); codeOf(err) != "validation_error" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if now, err := s.Get(t.Context(), lead, x.ID); err != nil || now.Owner != "" {
		t.Errorf("something was changed: %+v, %v", now, err)
	}
}

// N22: what is blocked may be completed, and nothing follows from that.
func TestN22_BlockedIsDeclaredOnly(t *testing.T) {
	s := open(t, ":memory:")
	x, err := s.Create(t.Context(), lead, Task{Subject: "x", Status: Pending, BlockedBy: []string{"task_2"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	y := s.make(t, lead, "y")
	if _, is, err := s.Update(t.Context(), lead, x.ID, Change{Status: ptr("completed")}, 0); err != nil ||
		is.Status != Completed {
		t.Errorf("got %v", err)
	}
	if y, _ = s.Get(t.Context(), lead, y.ID); y.Status != Pending {
		t.Errorf("the other is %s", y.Status)
	}
}

// One hundred agents claim one thousand tasks at once: each is claimed once.
func TestN23_OfTwoThatClaimATaskOneGetsIt(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s.db"))
	const agents, tasks = 100, 1000
	err := s.write(t.Context(), func(v view) error {
		for i := range tasks {
			if err := v.Run(`INSERT INTO team_tasks (space, number, status, owner, created, updated, authors, data)
				VALUES ('root', $1, 'pending', '', 0, 0, 0, '{"subject":"x"}')`, i+1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var claimed [tasks + 1]atomic.Int32
	var lost atomic.Int32
	for i := range agents {
		wg.Go(func() {
			me := at(fmt.Sprintf("a%d", i))
			for n := i * 10; n < i*10+2*tasks/agents; n++ { // each task is wanted by two, at about the same time
				id := fmt.Sprintf("task_%d", n%tasks+1)
				_, _, err := s.Update(context.Background(), me, id, Change{
					Status: ptr("inProgress"), Owner: &me.Agent, Expect: &Expect{Status: ptr("pending"), Owner: ptr("")},
				}, 0)
				switch codeOf(err) {
				case "<nil>":
					claimed[n%tasks+1].Add(1)
				case "task_changed":
					lost.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := 1; i <= tasks; i++ {
		if n := claimed[i].Load(); n != 1 {
			t.Errorf("task_%d was claimed %d times", i, n)
		}
	}
	if lost.Load() != tasks {
		t.Errorf("%d lost, want %d", lost.Load(), tasks)
	}
}

func TestN18_TasksAreListedByNumber(t *testing.T) {
	s := open(t, ":memory:")
	for i := range 11 {
		x := s.make(t, lead, fmt.Sprint("n", i))
		if i%2 == 0 {
			updated(s.Update(t.Context(), lead, x.ID, Change{Owner: ptr("o"), Status: ptr("completed")}, 0))
		}
	}
	all, total, err := s.List(t.Context(), lead, Filter{})
	if err != nil || total != 11 || all[9].ID != "task_10" || all[10].line() != "[task_11] COMPLETED - n10 (owner: o)" ||
		all[1].line() != "[task_2] PENDING - n1" {
		t.Errorf("%d: %v, %v", total, all, err)
	}
	for _, tt := range []struct {
		f        Filter
		n, total int
	}{
		{Filter{Status: Completed}, 6, 6}, {Filter{Owner: "o", Status: Pending}, 0, 0}, {Filter{Owner: "o", Limit: 2, Offset: 5}, 1, 6},
	} {
		got, total, err := s.List(t.Context(), lead, tt.f)
		if err != nil || len(got) != tt.n || total != tt.total {
			t.Errorf("%+v: %d of %d, %v", tt.f, len(got), total, err)
		}
	}
}

func updated(_, _ Task, err error) {
	if err != nil {
		panic(err)
	}
}

func TestN20_WhoWaitsForATaskIsToldWhenItEnds(t *testing.T) {
	s := open(t, ":memory:")
	x := s.make(t, lead, "x")
	const waiters = 50 // most of them have looked when it ends
	var began sync.WaitGroup
	began.Add(waiters)
	ended := make(chan Task, waiters)
	for range waiters {
		go func() {
			began.Done()
			got, err := s.Await(context.Background(), lead, x.ID)
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
	}
	began.Wait()
	updated(s.Update(t.Context(), at("a"), x.ID, Change{Status: ptr("in_progress")}, 0))
	updated(s.Update(t.Context(), at("a"), x.ID, Change{Status: ptr("failed"), Output: ptr("why")}, 0))
	for range waiters {
		if got := <-ended; got.Status != Failed || got.Output != "why" {
			t.Errorf("got %+v", got)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := s.Await(over, lead, s.make(t, lead, "y").ID); err != nil || got.Status != Pending {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestN24_N25_ADisbandedTeamStays(t *testing.T) {
	s := open(t, ":memory:")
	x := done(s.CreateTeam(t.Context(), lead, "n", "port it", []string{"a", "b", "c"}))
	if x.ID != "team_1" || x.Leader != "self" || x.Status != "active" || len(x.Members) != 3 || x.Members[0].Role != RoleMember {
		t.Errorf("got %+v", x)
	}
	done(s.Send(t.Context(), at("b"), Outgoing{To: "a", Message: "before"}, 0))
	if _, err := s.DeleteTeam(t.Context(), lead, "team_1"); err != nil {
		t.Fatal(err)
	}
	if all, _, err := s.Take(t.Context(), at("a")); err != nil || len(all) != 1 || all[0].Content != "before" {
		t.Errorf("its member has %+v in the mailbox, %v", all, err)
	}
	_, again := s.DeleteTeam(t.Context(), lead, "team_1")
	_, add := s.AddMember(t.Context(), lead, "team_1", Member{Name: "d"})
	_, remove := s.RemoveMember(t.Context(), lead, "team_1", "a")
	for _, err := range []error{again, add, remove} {
		if codeOf(err) != "team_disbanded" || err.Error() != "Team already disbanded: team_1" {
			t.Errorf("got %v", err)
		}
	}
	if got, err := s.Team(t.Context(), lead, "team_1"); err != nil || got.Status != "disbanded" || len(got.Members) != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.Send(t.Context(), at("a"), Outgoing{To: "b", Message: "x"}, 0); codeOf(err) != "not_in_team" {
		t.Errorf("a member of a disbanded team: %v", err)
	}
	if all, err := s.Teams(t.Context(), lead); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestN26_NamesOfMembersAreChecked(t *testing.T) {
	s := open(t, ":memory:")
	for _, members := range [][]string{{""}, {"*"}, {"a", "a"}, {" a"}, {"a\nb"}, {strings.Repeat("x", 65)}, {"\xff"}} {
		if _, err := s.CreateTeam(t.Context(), lead, "n", "", members); codeOf(err) != "validation_error" {
			t.Errorf("%q: %v", members, err)
		}
	}
	done(s.CreateTeam(t.Context(), at("boss"), "n", "", nil))
	for _, tt := range []struct {
		m    Member
		code string
	}{
		{Member{Name: "a"}, "<nil>"},
		{Member{Name: "a"}, "member_exists"},
		{Member{Name: "b", Role: RoleLeader}, "<nil>"},
		{Member{Name: "c", Role: "chief"}, "validation_error"},
		{Member{Name: "*"}, "validation_error"},
	} {
		if _, err := s.AddMember(t.Context(), at("boss"), "team_1", tt.m); codeOf(err) != tt.code {
			t.Errorf("%+v: %v", tt.m, err)
		}
	}
	if _, err := s.AddMember(t.Context(), lead, "team_2", Member{Name: "a"}); codeOf(err) != "team_not_found" {
		t.Errorf("got %v", err)
	}
}

// TestN27_OnlyWhoMadeATeamChangesIt: another session of the tree does not, whatever the name of its agent, and
// neither by a sub-agent that it starts. An operator may.
func TestN27_OnlyWhoMadeATeamChangesIt(t *testing.T) {
	s := open(t, ":memory:")
	boss := at("boss")
	done(s.CreateTeam(t.Context(), boss, "n", "", []string{"a", "b"}))
	f := &feature{store: s}
	namesake := boss
	namesake.Session = "made-later"
	for _, p := range []Place{lead, at("a"), namesake} {
		_, add := s.AddMember(t.Context(), p, "team_1", Member{Name: "x"})
		_, remove := s.RemoveMember(t.Context(), p, "team_1", "b")
		_, disband := s.DeleteTeam(t.Context(), p, "team_1")
		from := tool.Session{ID: p.Session, Account: "u", Agent: p.Agent}
		if from.ID != "root" {
			from.Above = []tool.Session{{ID: "root"}}
		}
		for what, err := range map[string]error{
			"add": add, "remove": remove, "disband": disband, "start an agent": f.Join(t.Context(), from, "n", "x"),
		} {
			if codeOf(err) != "not_the_leader" {
				t.Errorf("%s, %s: %v", p.Session, what, err)
			}
		}
		if err := f.Join(t.Context(), from, "n", "a"); err != nil {
			t.Errorf("%s starts an agent that is a member: %v", p.Session, err)
		}
	}
	if got := done(s.Team(t.Context(), lead, "team_1")); len(got.Members) != 2 || got.Status != active {
		t.Errorf("got %+v", got)
	}
	person := lead
	person.Operator = true
	done(s.AddMember(t.Context(), person, "team_1", Member{Name: "x"}))
	done(s.RemoveMember(t.Context(), boss, "team_1", "x"))
	if got := done(s.DeleteTeam(t.Context(), boss, "team_1")); got.Status != disbanded {
		t.Errorf("got %+v", got)
	}
}

// TestWhoChangesATeamOfAnEarlierVersion: it names no session, so any agent with the name of its leader does.
func TestWhoChangesATeamOfAnEarlierVersion(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s.db"))
	boss := at("boss")
	done(s.CreateTeam(t.Context(), boss, "n", "", []string{"a"}))
	if err := s.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE team_teams SET data = replace(data, $1, '')`, fmt.Sprintf(`"leader_session":%q,`, boss.Session))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.teams.Drop(boss.Space)
	if _, err := s.AddMember(t.Context(), at("a"), "team_1", Member{Name: "x"}); codeOf(err) != "not_the_leader" {
		t.Errorf("a member: %v", err)
	}
	namesake := boss
	namesake.Session = "made-later"
	if got, err := s.AddMember(t.Context(), namesake, "team_1", Member{Name: "x"}); err != nil || len(got.Members) != 2 {
		t.Errorf("an agent with the name of its leader: %+v, %v", got, err)
	}
}

func TestN27_WhoIsNoMemberCannotLeave(t *testing.T) {
	s := open(t, ":memory:")
	done(s.CreateTeam(t.Context(), lead, "n", "", []string{"a"}))
	if _, err := s.RemoveMember(t.Context(), lead, "team_1", "x"); codeOf(err) != "member_not_found" ||
		err.Error() != "Member 'x' not found in team team_1" {
		t.Errorf("got %v", err)
	}
	sent := func(want string) {
		t.Helper()
		if _, err := s.Send(t.Context(), at("a"), Outgoing{To: self, Message: "x"}, 0); codeOf(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	sent("<nil>")
	if got, err := s.RemoveMember(t.Context(), lead, "team_1", "a"); err != nil || len(got.Members) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	sent("not_in_team")
	done(s.CreateTeam(t.Context(), at("a"), "m", "", []string{self}))
	sent("<nil>")
}

func TestN38_EverythingGoesWithTheTree(t *testing.T) {
	s := open(t, ":memory:")
	s.make(t, lead, "x")
	done(s.CreateTeam(t.Context(), lead, "n", "", []string{"a"}))
	if _, err := s.Send(t.Context(), lead, Outgoing{To: "a", Message: "x"}, 0); err != nil {
		t.Fatal(err)
	}
	forget := func(session string) {
		if err := s.db.Write(t.Context(), func(tx *sql.Tx) error { return s.drop(tx, session) }); err != nil {
			t.Fatal(err)
		}
	}
	forget("s-a") // a session below the top leaves it
	if _, total, err := s.List(t.Context(), lead, Filter{}); err != nil || total != 1 {
		t.Errorf("%d tasks are left, %v", total, err)
	}
	forget("root")
	_, total, err := s.List(t.Context(), lead, Filter{})
	all, _, _ := s.Look(t.Context(), at("a"))
	if err != nil || total != 0 || len(all) != 0 || s.make(t, lead, "y").ID != "task_1" {
		t.Errorf("something is left: %d, %v, %v", total, all, err)
	}
	if _, err := s.Send(t.Context(), lead, Outgoing{To: "a", Message: "x"}, 0); codeOf(err) != "not_in_team" {
		t.Errorf("the team is left: %v", err)
	}
}

// TestATreeHasSoManyTasks: the last that fits is made, and the next one is refused with a hint.
func TestATreeHasSoManyTasks(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s.db"))
	first := s.make(t, lead, "first")
	if err := s.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO team_tasks (space, number, status, owner, created, updated, authors, data)
WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1)
SELECT space, i, status, owner, created, updated, authors, data FROM n, team_tasks`, 10_000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	create := func(id string) error {
		_, err := s.Create(t.Context(), lead, Task{ID: id, Subject: "x", Status: Pending}, provenance.ByModel)
		return err
	}
	if err := create(fmt.Sprint("task_", 10_000)); err != nil {
		t.Fatalf("the last task, after %s: %v", first.ID, err)
	}
	if err := create(fmt.Sprint("task_", 10_001)); codeOf(err) != "too_many_tasks" {
		t.Errorf("one more: %v", err)
	}
}
