package tool

import (
	"io"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Lasting is a Tool whose call may go on as a job when its caller has been answered.
type Lasting interface {
	// Lasts says whether this call may, and how long its caller waits for its end before.
	Lasts(In) (wait time.Duration, ok bool)
}

// Jobs keeps calls that go on when they have been answered.
type Jobs interface {
	// Open makes the job of a call that was admitted, or says why there is no room for one.
	// Until a hook or a person has released its result, nobody may read what a withheld job prints.
	Open(c *Call, withheld bool) (Job, error)
}

// Job is a call that may go on when it has been answered. The request path uses it in this
// order: Open, Run of the tool with it, Detach if the caller is answered before the end,
// Close.
type Job interface {
	JobStreams
	// Ready is closed when the program runs.
	Ready() <-chan struct{}
	// Detach says that the caller is answered now, and returns the answer. From then on cancel
	// ends the job.
	Detach(cancel func(error)) (data any, text string)
	// Forbid says that what is in force now forbids the job, and why; "" is that it does not.
	Forbid(why string)
	// Close says that the call has ended, with its result. A job that was not detached leaves
	// nothing.
	Close(c *Call)
}

// JobStreams is a job as its tool sees it.
type JobStreams interface {
	// Output gets what the program prints, both of its streams in their order.
	Output() io.Writer
	// Input returns what the program reads, for others to write to. The tool closes it.
	Input() (*os.File, error)
	// Terminal returns a new terminal for the program, in place of Output and Input. The tool
	// closes it.
	Terminal(rows, columns int) (*os.File, error)
	// Started says that the program runs.
	Started(sandbox.Proc)
	// Printed is what the program has printed, and how many bytes that was in all. Of more than most
	// bytes the middle is left out, and what is no longer kept, too: whole is false then. Call it
	// when the program has ended.
	Printed(most int) (text string, total int64, whole bool)
	// Ended says how the program has ended.
	Ended(exit sandbox.Exit)
	// Answered reports whether the caller has been answered.
	Answered() bool
	ID() string
	// Agent says that the job is an agent, and its session.
	Agent(name, session string)
	// Author says who has written what is printed from now on, if that is not the tool.
	Author(Origin)
	// Wall is how long the program may run; 0 is until it is ended.
	Wall() time.Duration
}
