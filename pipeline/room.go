package pipeline

import (
	"context"
	"runtime"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// What a call takes from the budget of its account, beside what the request has taken for
// its arguments. A command line becomes statements, words and uses, and these an input of
// the policies: measured with lines of statements as short as can be.
const (
	callBytes  = 32 << 10
	judgeBytes = 64 << 10 // while it is judged

	factsFactor = 120 // for each byte of a command line, as long as the call lasts
	judgeFactor = 400 // and while it is judged
	maxCommand  = 64 << 10

	// garbage is how much unused memory judging may leave for the next collection. On a busy machine the
	// collection comes late, and the next command would be judged while this memory is still taken.
	garbage = 8 << 20
)

// roomTime is how long a call waits for its room: calls of the same batch may have all of it
// for a moment, and questions that wait for an answer have theirs for hours.
const roomTime = 5 * time.Second

// judgeTime is how long a command waits to be judged: for others that are judged, each for a moment, and not
// for leases, jobs and questions, which keep their room for longer than anybody would wait.
const judgeTime = 30 * time.Second

// memoryRoom reserves the memory that the call needs until it ends, and waits for it. A command does not
// wait and is refused at once. Judging a command takes more memory than anything else in a call,
// and a queue of commands would take all memory that becomes free.
func memoryRoom(ctx context.Context, c *tool.Call) error {
	if c.Spec.Class == tool.ClassExec {
		return budget.Of(ctx).Take(lasting(c))
	}
	wait, stop := context.WithTimeout(ctx, roomTime)
	defer stop()
	return budget.Of(ctx).Wait(wait, lasting(c))
}

func lasting(c *tool.Call) int64 { return callBytes + factsFactor*commandBytes(c) }

// roomToWait takes what the call needs when its request has ended.
func roomToWait(ctx context.Context, c *tool.Call) (*budget.Hold, error) {
	return budget.Of(ctx).Keep(lasting(c) + 2*int64(len(c.In.Args)))
}

// whileJudged takes what judging needs, when it is there, and returns what gives it back.
// What the call has is given back first and taken in the same step: calls that each held
// theirs would wait for each other.
func whileJudged(ctx context.Context, c *tool.Call) (done func(), err error) {
	n := judgeBytes + judgeFactor*commandBytes(c)
	hold := budget.Of(ctx)
	hold.Give(lasting(c))
	return func() {
		if n > garbage {
			runtime.GC()
		}
		hold.Give(n)
	}, waitToJudge(ctx, lasting(c)+n)
}

func waitToJudge(ctx context.Context, n int64) error {
	wait, stop := context.WithTimeout(ctx, judgeTime)
	defer stop()
	return budget.Of(ctx).Wait(wait, n)
}

// RoomToJudge takes what judging a command line of so many bytes needs, until the request ends.
func RoomToJudge(ctx context.Context, command int) error {
	return waitToJudge(ctx, judgeBytes+judgeFactor*min(int64(command), maxCommand))
}

// RoomToTell takes what the facts of a judged call need to be told, until the request ends, if it is there. It does
// not wait: others that wait to be judged need what this call holds.
func RoomToTell(ctx context.Context, c *tool.Call) bool {
	return budget.Of(ctx).Take(judgeBytes+judgeFactor*commandBytes(c)) == nil
}

// commandBytes returns how long the command line of a call is; what is longer than the guard reads is refused at
// once.
func commandBytes(c *tool.Call) int64 {
	if c.Spec.Class != tool.ClassExec {
		return 0
	}
	return min(int64(len(c.In.Args)), maxCommand)
}
