// Package team stores the tasks, teams and mailboxes that agents share, and has the tools and
// routes for them.
//
// Each tree of sessions is one space. All agents of the tree see its tasks and teams; agents of
// other trees do not. An agent is known by the name of its session; the agent at the top is "self"
// if its session has no name. Models and people write the texts, and each row names its authors.
//
// Tasks have the ids task_1, task_2, … of their space. A status is pending, inProgress, completed,
// failed or cancelled; the last three are final. blocked_by and blocks are stored, with no effect.
// To claim a task, name the owner or status that it must still have. If two agents claim it so,
// one gets it and the other gets the error task_changed:
//
//	claim := team.Change{Owner: &owner, Status: &status, Expect: &team.Expect{Owner: &nobody}}
//	_, task, err := s.Update(ctx, ann, task.ID, claim, provenance.ByModel)
//
// Any agent of the tree may change any task. Only the session that made a team may change it, or
// an operator. A deleted team is disbanded: it stays in the list, and nobody can join it. An agent
// sends messages to the agents of its active teams. [Store.Take] returns the messages of a mailbox
// and empties it; [Store.Look] leaves them there. A full mailbox refuses messages and loses none.
//
// Guaranteed: a change is made completely or not at all, and survives a kill of the daemon. All of
// it is deleted with the session at the top of the tree.
package team
