// Package team holds the tasks, teams and mailboxes that agents share.
//
// Each tree of sessions is one space: all agents of the tree see the tasks and teams of the others, and nobody
// else does. An agent has the name of its session; the agent at the top is "self" if its session has no name.
//
// Tasks have the ids task_1, task_2, … of their space. A status is pending, inProgress, completed,
// failed or cancelled; the last three are final. blocked_by and blocks are only declared. A change may
// say what it expects of status and owner: of two agents that claim a task so, one gets it.
//
//	claim := team.Change{Owner: &owner, Status: &status, Expect: &team.Expect{Owner: &nobody}}
//	_, task, err := s.Update(ctx, ann, task.ID, claim, provenance.ByModel)
//
// A team has members and a leader, who is a member too. A deleted team is disbanded: it stays, and nobody joins
// it. An agent sends messages to the agents of its active teams. A mailbox holds messages until its agent reads
// them, which empties it. A full mailbox refuses further messages and loses none.
//
// Guaranteed: a change is made completely or not at all, and survives a kill of the daemon. All of it is deleted
// with the session at the top of the tree.
package team
