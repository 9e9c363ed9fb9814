package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Job is one call that may go on when its caller has been answered. It implements [tool.Job].
type Job struct {
	js   *Jobs
	call *tool.Call // nil of one that an earlier daemon ran
	out  *ring
	wall time.Duration

	ready chan struct{} // closed when the program runs
	begun sync.Once
	gone  chan struct{} // closed when its program has ended
	left  sync.Once
	done  chan struct{} // closed when the call has ended
	pump  sync.WaitGroup

	readers readers

	// Guarded by js.mu:
	info     Info
	agent    string // its name, and its session, of a job that is one
	session  string
	answered bool
	dropped  bool
	over     bool // the program has ended
	cancel   func(error)
	program  sandbox.Proc     // nil before it runs
	forwards map[int]*forward // by the port of the job
	input    *os.File         // to type into it; nil if nobody can
	seen     int64            // offset up to which its model has read it
}

// errKilled cancels a job that somebody ends.
var errKilled = errors.New("the job was ended")

// ID implements [tool.Job].
func (j *Job) ID() string { return j.info.ID }

// Wall implements [tool.JobStreams].
func (j *Job) Wall() time.Duration { return j.wall }

// Ready implements [tool.Job].
func (j *Job) Ready() <-chan struct{} { return j.ready }

// Output implements [tool.JobStreams].
func (j *Job) Output() io.Writer { return printing{j} }

// printing is where the output of a job goes: the ring, and the callers that still wait for the call.
type printing struct{ *Job }

func (p printing) Write(b []byte) (int, error) {
	p.call.In.Emit(tool.Progress{Stream: "output", Output: b})
	return p.out.Write(b)
}

// Input implements [tool.JobStreams].
func (j *Job) Input() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("prepare the input of a job: %w", err)
	}
	j.types(w)
	return r, nil
}

func (j *Job) types(w *os.File) {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	j.input = w
}

// Terminal implements [tool.JobStreams].
func (j *Job) Terminal(rows, columns int) (*os.File, error) {
	here, there, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal for a job: %w", err)
	}
	if err := pty.Setsize(here, size(rows, columns)); err != nil {
		here.Close()
		there.Close()
		return nil, fmt.Errorf("open a terminal for a job: %w", err)
	}
	j.types(here)
	j.js.mu.Lock()
	j.info.Terminal = true
	j.js.mu.Unlock()
	j.pump.Go(func() { // it ends with an error, when the last program is gone
		_, _ = io.CopyBuffer(printing{j}, onlyReader{here}, make([]byte, 32<<10))
	})
	return there, nil
}

// onlyReader hides the method WriteTo of a file, so that a copy uses the buffer that it is given.
type onlyReader struct{ io.Reader }

func size(rows, columns int) *pty.Winsize {
	return &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}
}

// Started implements [tool.JobStreams].
func (j *Job) Started(program sandbox.Proc) {
	j.js.mu.Lock()
	j.program = program
	killed := j.info.By != ""
	j.js.mu.Unlock()
	if killed {
		program.Terminate(0)
	}
	j.begun.Do(func() { close(j.ready) })
}

// Ended implements [tool.JobStreams].
func (j *Job) Ended(exit sandbox.Exit) {
	defer j.left.Do(func() { close(j.gone) })
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	j.endForwards()
	code := exit.Code
	j.info.ExitCode, j.info.Signal, j.over = &code, exit.Signal, true
	if why := exit.Why(); j.info.By == "" && why != "exited" {
		j.info.By = map[string]string{"signaled": "a signal", "timed_out": "its time limit"}[why]
		if j.info.By == "" {
			j.info.By = "the limit of " + why
		}
	}
}

// truncated stands where output is left out.
const truncated = "...(truncated)..."

// Printed implements [tool.JobStreams].
func (j *Job) Printed(most int) (text string, total int64, whole bool) {
	j.pump.Wait()
	total = j.out.written()
	kept := max(0, total-j.out.most)
	if half := int64(most / 2); total-kept > int64(most) {
		text = j.slice(kept, half) + truncated + j.slice(total-half, half)
	} else {
		text = j.slice(kept, total-kept)
	}
	if kept > 0 {
		text = truncated + text
	}
	return text, total, total <= int64(most) && kept == 0
}

// slice returns the output from an offset on, as text; what cannot be read is empty.
func (j *Job) slice(offset, n int64) string {
	b := make([]byte, n)
	got, _, err := j.out.read(b, offset)
	if err != nil {
		j.js.o.Log.Error("the output of a job cannot be read", "job", j.info.ID, "error", err)
	}
	return strings.ToValidUTF8(string(b[:got]), "\uFFFD")
}

// Answered implements [tool.JobStreams].
func (j *Job) Answered() bool {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	return j.answered
}

// Agent implements [tool.JobStreams].
func (j *Job) Agent(name, session string) {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	j.agent, j.session = name, session
}

// Author implements [tool.JobStreams].
func (j *Job) Author(o tool.Origin) {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	j.info.Origin = o
}

// answer is the data of the call that began a job.
type answer struct {
	ID    string `json:"job_id"`
	State State  `json:"state"`
	// As the clients of other agents name it.
	TaskID  string `json:"task_id"`
	Session string `json:"session_id,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Output  string `json:"output,omitempty"` // until then
}

// codexTool is the tool whose clients know the job as a session of its own.
const codexTool = "exec_command"

// answerBytes is how much of the first output the answer holds.
const answerBytes = 30_000

// Detach implements [tool.Job].
func (j *Job) Detach(cancel func(error)) (data any, text string) {
	j.js.mu.Lock()
	j.answered, j.cancel = true, cancel
	withheld := j.info.Withheld
	j.save()
	j.js.o.Publish(j.event(events.JobStarted))
	a := answer{ID: j.info.ID, TaskID: j.info.ID, State: Running, Agent: j.agent, Session: j.session}
	j.js.mu.Unlock()
	text = fmt.Sprintf("The command runs in the background as %s. Read what it prints with TaskOutput "+
		"{\"task_id\": %q}; end it with TaskStop.", j.info.ID, j.info.ID)
	if a.Agent != "" {
		text = fmt.Sprintf("Agent %s works in the background as %s. TaskOutput {\"task_id\": %q, \"block\": true} "+
			"waits for its answer; end it with TaskStop.", a.Agent, j.info.ID, j.info.ID)
	}
	if j.info.Tool == codexTool {
		a.Session = j.info.ID
		text = fmt.Sprintf("The command goes on. session_id for write_stdin: %s", j.info.ID)
	}
	if printed := j.out.written(); printed > 0 && !withheld {
		from := max(0, printed-answerBytes)
		a.Output = j.slice(from, printed-from)
		text += "\nUntil now it printed:\n" + a.Output
		j.js.mu.Lock()
		j.seen = printed
		j.js.mu.Unlock()
	}
	return a, text
}

// Close implements [tool.Job].
func (j *Job) Close(c *tool.Call) {
	j.pump.Wait()
	j.out.end()
	defer j.left.Do(func() { close(j.gone) })
	j.js.mu.Lock()
	defer close(j.done)
	defer j.js.mu.Unlock()
	if j.input != nil {
		j.input.Close()
		j.input = nil
	}
	j.endForwards()
	j.call, j.program = nil, nil
	if !j.answered {
		j.js.drop(j)
		return
	}
	j.settle(c)
	if !j.dropped {
		j.save()
	}
	j.js.o.Publish(j.event(events.JobEnded))
	j.js.prune()
}

// settle fills the info of a job whose call has ended, and deletes output that a hook or a person withheld. js.mu is
// held.
func (j *Job) settle(c *tool.Call) {
	r := c.Result
	j.info.State, j.info.Ended, j.info.Printed = Exited, time.Now().UTC(), j.out.written()
	j.info.Origin = cmp.Or(c.Output.Origin, j.info.Origin)
	j.info.Status, j.info.Variable, j.info.Error = string(r.Status), r.VarResult, j.out.lost()
	released := r.Status == tool.StatusSuccess
	if r.Error != nil {
		released = r.Error.Stage == "run"
		if r.Error.Code == "cancelled" && j.info.By == "" {
			j.info.By = "a cancelled call"
		}
		if !j.over { // it has not run to an end that was told
			j.info.Error = r.Error.Msg
		}
	}
	if j.info.By != "" {
		j.info.State = Killed
	}
	if j.info.Withheld && released {
		j.info.Withheld = false
	} else if j.info.Withheld { // no trace
		j.info.Error = ""
		if err := j.out.empty(); err != nil {
			j.js.o.Log.Error("withheld output is left", "job", j.info.ID, "error", err)
		}
	}
}

// event returns an event about the job. js.mu is held.
func (j *Job) event(t events.Type) events.Event {
	return events.Event{
		Type: t, Account: j.info.Account, Session: j.info.Session, Call: j.info.Call, Tool: j.info.Tool,
		Job: j.info.ID, Status: string(j.info.State),
	}
}

// save writes the info of the job to the disk. js.mu is held.
func (j *Job) save() {
	b, err := json.Marshal(j.info)
	path := j.js.path(j.info.ID, infoSuffix)
	if err == nil {
		if err = os.WriteFile(path+".new", b, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		j.js.o.Log.Error("a job is not kept", "job", j.info.ID, "error", err)
	}
}

// ended reports whether nothing of the job runs. js.mu is held, or nobody else knows the job.
func (j *Job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return j.info.State != Running
	}
}

// snapshot returns the info of the job as it is now. js.mu is held.
func (j *Job) snapshot() Info {
	i := j.info
	if i.State == Running {
		i.Printed = j.out.written()
		if j.program != nil && j.program.Apart() {
			i.OutOfReach = "the last command of its session ran in a newer sandbox, because settings or paths of the " +
				"sandbox have changed since the job began; end the job and begin it again to reach its ports"
		}
	}
	return i
}

// Info returns the info of the job as it is now.
func (j *Job) Info() Info {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	return j.snapshot()
}

// Done is closed when nothing of the job runs.
func (j *Job) Done() <-chan struct{} { return j.done }

// termTime is how long a job has to clean up when it is asked to end.
const termTime = 2 * time.Second

// Stop sends the programs of the job SIGTERM, and kills them if they do not end within termTime. It returns the info of
// the ended job. A job that has ended already does not change.
func (j *Job) Stop(ctx context.Context, by string) (Info, error) {
	j.js.mu.Lock()
	program := j.program
	if j.info.By == "" && !j.over {
		j.info.By = by
	}
	j.js.mu.Unlock()
	if program != nil {
		program.Terminate(termTime)
	}
	select {
	case <-j.done:
		return j.Info(), nil
	case <-ctx.Done():
		return j.Info(), context.Cause(ctx)
	}
}

// kill ends the job at once.
func (j *Job) kill(by string) {
	j.js.mu.Lock()
	if j.info.By == "" && !j.over {
		j.info.By = by
	}
	program, cancel := j.program, j.cancel
	j.js.mu.Unlock()
	if program != nil {
		program.Terminate(0)
	}
	if cancel != nil {
		cancel(errKilled)
	}
}

// Forbid implements [tool.Job].
func (j *Job) Forbid(why string) {
	j.js.mu.Lock()
	if j.info.Forbidden == why || j.over || j.ended() {
		j.js.mu.Unlock()
		return
	}
	j.info.Forbidden = why
	j.save()
	end := why != "" && j.js.config.Forbidden == forbiddenEnd
	note := tool.Note{
		Name: "job_forbidden", Account: j.info.Account, Session: j.info.Session, Call: j.info.Call, Tool: j.info.Tool,
		Message: why, Detail: map[string]string{"job": j.info.ID, "ended": strconv.FormatBool(end)},
	}
	j.js.mu.Unlock()
	if end {
		j.kill("a change of settings or policies: " + why)
	}
	if why == "" {
		note.Name = "job_allowed_again"
	}
	if err := j.js.o.Record(context.Background(), note); err != nil {
		j.js.o.Log.Error("what became of a job is not recorded", "job", j.info.ID, "error", err)
	}
}

// inputTime is how long a program may take to read what is typed.
const inputTime = 5 * time.Second

// Type sends text to the program. end says that nothing more comes.
func (j *Job) Type(text string, end bool) error {
	j.js.mu.Lock()
	in, over, terminal := j.input, j.over || j.ended(), j.info.Terminal
	if end && !terminal && !over {
		j.input = nil
	}
	j.js.mu.Unlock()
	switch {
	case over:
		return &tool.Error{
			Code: "job_ended", Msg: "the job has ended, and reads nothing any more",
			Hint: "TaskOutput says how it ended",
		}
	case in == nil:
		return &tool.Error{
			Code: "job_without_input", Msg: "this job reads no input",
			Hint: "begin one with run_in_background, or with tty where the program wants a terminal",
		}
	}
	if end && terminal {
		text += "\x04" // Ctrl-D
	}
	_ = in.SetWriteDeadline(time.Now().Add(inputTime)) // pipes and terminals have deadlines
	n, err := io.WriteString(in, text)
	if end && !terminal {
		in.Close()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &tool.Error{
			Code: "input_not_read", Msg: fmt.Sprintf("the program read %d of %d bytes in %v", n, len(text), inputTime),
			Hint: "send the rest when it reads again; TaskOutput shows what it does",
		}
	case errors.Is(err, syscall.EPIPE):
		return &tool.Error{Code: "input_closed", Msg: "the program has closed its input"}
	case err != nil:
		return fmt.Errorf("type into a job: %w", err)
	}
	return nil
}

// Resize changes the size of the terminal.
func (j *Job) Resize(rows, columns int) error {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	if !j.info.Terminal || j.input == nil {
		return &tool.Error{Code: "job_without_terminal", Msg: "this job has no terminal, or has ended"}
	}
	if err := pty.Setsize(j.input, size(rows, columns)); err != nil {
		return fmt.Errorf("resize the terminal of a job: %w", err)
	}
	return nil
}
