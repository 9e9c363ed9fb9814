// Package team is what agents share that work on one thing: tasks, teams and mailboxes.
//
// A tree of sessions is one space: what an agent of it makes, all its agents see, and nobody else. The
// name of an agent is that of its session; the one at the top is "self" if it has none.
//
// Tasks have the ids task_1, task_2, … of their space. A status is pending, inProgress, completed,
// failed or cancelled; the last three are final. blocked_by and blocks are only declared. A change may
// say what it expects of status and owner: of two agents that claim a task so, one gets it.
//
//	claim := team.Change{Owner: &owner, Status: &status, Expect: &team.Expect{Owner: &nobody}}
//	_, task, err := s.Update(ctx, ann, task.ID, claim, provenance.ByModel)
//
// Teams have members and a leader, who counts as one. A team that is deleted is disbanded and stays. An
// agent sends messages to agents of its active teams; they lie in a mailbox until they are read, which
// empties it. A full mailbox refuses messages, and loses none.
//
// Guaranteed: a change is all or nothing, and there after a kill of the daemon. Everything goes with the
// session at the top of the tree.
package team
