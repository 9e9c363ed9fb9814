// Package team stores the tasks, teams and mailboxes that agents share, and has the tools and
// routes for them.
//
// Each tree of sessions is one space. All agents of the tree see its tasks and teams; agents of
// other trees do not. An agent is known by the name of its session; the agent at the top is "self"
// if its session has no name. Models and people write the texts. Each task and message names its
// authors; a team names only the session that made it.
//
// Tasks have the ids task_1, task_2, … of their space. A status is pending, inProgress, completed,
// failed or cancelled; the last three are final. blocked_by and blocks are stored, with no effect.
// To claim a task, name in Expect a value that the same change replaces, such as the owner "". If
// two agents claim it so, one gets it and the other gets the error task_changed:
//
//	s := team.New(db) // which was opened with team.Definition().Schema
//	ann, me, nobody := team.PlaceOf(session), "ann", ""
//	task, err := s.Create(ctx, ann, team.Task{Subject: "write the tests", Status: team.Pending}, provenance.ByModel)
//	claim := team.Change{Owner: &me, Expect: &team.Expect{Owner: &nobody}}
//	_, task, err = s.Update(ctx, ann, task.ID, claim, provenance.ByModel)
//
// [Definition] is the part of the daemon. Its tools and routes fire the hooks and events of tasks; a
// [Store] fires none.
//
// Any agent of the tree may change any task. Only the session that made a team may change it, or
// an operator; in a team of an earlier version, any agent with the name of its leader. A deleted
// team is disbanded: it stays in the list, and nobody can join it. [Store.CreateTeam] makes the
// mailboxes. An agent sends messages to the agents of its active teams ([Store.Send]). [Store.Take]
// returns the messages of a mailbox and empties it; [Store.Look] leaves them there. A full mailbox
// refuses messages and loses none.
//
// Guaranteed: a change is made completely or not at all, and survives a kill of the daemon. All of
// it is deleted with the session at the top of the tree.
//
// A [Store] believes the [Place] that it is given: whoever calls it takes the place from the session of
// the caller. Its errors are those of package store, or a *tool.Error with a code, such as
// task_not_found or mailbox_full, after which nothing was changed.
//
// A new field of a task that no query uses goes into [Task], kept and scanTask (store.go), and is bounded in
// Task.check. A new column is a migration in migrations/ and one in migrations/postgres/. A tool is an
// element of the lists in tools.go and tools_teams.go; a client that writes by HTTP has a route in
// routes.go. The tests run over both databases (make test-postgres).
package team
