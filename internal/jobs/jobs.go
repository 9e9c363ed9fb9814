package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// State is what became of a job.
type State string

// The states.
const (
	Running State = "running"
	Exited  State = "exited" // by itself
	Killed  State = "killed" // Info.By says by whom
	Lost    State = "lost"   // the daemon went away, and everything that it had started
)

// Info is what is known of a job. It is also what the disk keeps of it.
type Info struct {
	ID       string    `json:"job_id"`
	Call     string    `json:"call_id"`
	Session  string    `json:"session_id"`
	Account  string    `json:"account"`
	Tool     string    `json:"tool"`
	Command  string    `json:"command"` // cut if it is long
	State    State     `json:"state"`
	By       string    `json:"killed_by,omitempty"`
	ExitCode *int      `json:"exit_code,omitempty"`
	Signal   string    `json:"signal,omitempty"`
	Started  time.Time `json:"started_at"`
	Ended    time.Time `json:"ended_at,omitzero"`
	Printed  int64     `json:"output_bytes"` // in all, not only what is kept
	Terminal bool      `json:"tty,omitempty"`
	Withheld bool      `json:"withheld,omitempty"` // the output may not be read, or not yet
	Variable string    `json:"cache_var_result,omitempty"`
	Status   string    `json:"status,omitempty"` // of the call, when it has ended
	Error    string    `json:"error,omitempty"`  // of the call; or why output is missing
	// Origin is who wrote the output, where the tool says so.
	Origin   tool.Origin `json:"origin,omitempty"`
	Forwards []Forward   `json:"forwards,omitempty"`
	// Forbidden says what forbids it since the settings or policies have changed.
	Forbidden string `json:"forbidden,omitempty"`
	// OutOfReach says why the last command of the session could not reach its ports.
	OutOfReach string `json:"out_of_reach,omitempty"`
}

// Options are what jobs need of the daemon.
type Options struct {
	Dir     string // of what is kept; made if it is absent
	Config  *Config
	Publish func(events.Event)
	Record  func(context.Context, tool.Note) error // of what no call records
	Log     *slog.Logger
}

// Jobs are all jobs of a daemon. It is safe for concurrent use.
type Jobs struct {
	o Options

	mu     sync.Mutex      // guards what follows
	config *Config         // in force
	all    map[string]*Job // by id; those that were not answered yet, too
	closed bool
}

// Open reads the jobs that earlier daemons have stored. A job that ran when its daemon ended without a shutdown becomes
// lost.
func Open(ctx context.Context, o Options) (*Jobs, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep jobs: %w", err)
	}
	js := &Jobs{o: o, config: o.Config, all: map[string]*Job{}}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), infoSuffix)
		if !ok {
			continue
		}
		if err := js.load(ctx, id); err != nil {
			o.Log.Warn("a job of an earlier daemon cannot be read, and is dropped", "job", id, "error", err)
			js.remove(id)
		}
	}
	for _, e := range entries { // output of jobs that nobody was told of
		if id, ok := strings.CutSuffix(e.Name(), outputSuffix); ok && js.all[id] == nil {
			js.remove(id)
		}
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	js.prune()
	return js, nil
}

// What the disk keeps of a job: ID.json and ID.out.
const (
	infoSuffix   = ".json"
	outputSuffix = ".out"
)

func (js *Jobs) path(id, suffix string) string { return filepath.Join(js.o.Dir, id+suffix) }

func (js *Jobs) remove(id string) {
	for _, suffix := range [...]string{infoSuffix, outputSuffix} {
		if err := os.Remove(js.path(id, suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			js.o.Log.Warn("a file of a job is left", "error", err)
		}
	}
}

func (js *Jobs) load(ctx context.Context, id string) error {
	b, err := os.ReadFile(js.path(id, infoSuffix))
	if err != nil {
		return err
	}
	j := &Job{js: js, answered: true, done: closedChannel, ready: closedChannel, gone: closedChannel}
	if err := json.Unmarshal(b, &j.info); err != nil {
		return err
	}
	if j.info.ID != id {
		return fmt.Errorf("the file names %q", j.info.ID)
	}
	if j.out, err = openRing(js.path(id, outputSuffix)); err != nil {
		return err
	}
	js.all[id] = j
	if j.info.State != Running {
		return nil
	}
	j.info.State, j.info.Ended, j.info.Printed = Lost, time.Now().UTC(), j.out.written()
	js.o.Log.Warn("a job was lost with its daemon", "job", id, "session", j.info.Session)
	err = js.o.Record(ctx, tool.Note{
		Name: "job_lost", Account: j.info.Account, Session: j.info.Session, Call: j.info.Call, Tool: j.info.Tool,
		Message: "the daemon went away while job " + id + " ran", Detail: map[string]string{"job": id},
	})
	if err != nil { // not saved as lost, so that the next daemon records it
		js.o.Log.Error("what became of a job is not recorded", "job", id, "error", err)
		return nil
	}
	j.save()
	return nil
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Open implements [tool.Jobs].
func (js *Jobs) Open(c *tool.Call, withheld bool) (tool.Job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closed {
		return nil, &tool.Error{Code: "stopping", Msg: "the daemon stops, and begins no job"}
	}
	inSession, inAccount := 0, 0
	for _, j := range js.all {
		if j.ended() || j.info.Account != c.Session.Account {
			continue
		}
		if inAccount++; j.info.Session == c.Session.ID {
			inSession++
		}
	}
	for _, q := range []struct {
		of        string
		have, max int
	}{
		{"session", inSession, js.config.PerSession}, {"account", inAccount, js.config.PerAccount},
	} {
		if q.have >= q.max {
			return nil, &tool.Error{
				Code: "too_many_jobs", Msg: fmt.Sprintf("%d jobs of this %s run, %d at most", q.have, q.of, q.max),
				Hint: "TaskList lists them and TaskStop ends one",
			}
		}
	}
	id := "job_" + rand.Text()
	out, err := createRing(js.path(id, outputSuffix), js.config.OutputBytes, js.config.OutputRate)
	if err != nil {
		return nil, &tool.Error{Code: "job_not_kept", Msg: err.Error(), Hint: "the disk of the state may be full"}
	}
	j := &Job{
		js: js, call: c, out: out, wall: wallOf(c, js.config),
		done: make(chan struct{}), ready: make(chan struct{}), gone: make(chan struct{}),
		info: Info{
			ID: id, Call: c.ID, Session: c.Session.ID, Account: c.Session.Account, Tool: c.Spec.Name,
			Command: commandOf(c.In.Args), State: Running, Started: c.Started.UTC(), Withheld: withheld,
		},
	}
	js.all[id] = j
	return j, nil
}

// wallOf returns how long a job may run: the shorter of what the policies and the configuration allow, 0 without a
// limit.
func wallOf(c *tool.Call, config *Config) time.Duration {
	seconds := config.WallSeconds
	if w := c.Decision.Obligations.WallSeconds; w > 0 && (seconds == 0 || w < seconds) {
		seconds = w
	}
	return time.Duration(seconds) * time.Second
}

// maxCommand is how much of a command is kept to know the job by.
const maxCommand = 500

// commandOf returns the text by which people know a job: the command, or all arguments if there is none. The model and
// expanded variables wrote it; it is cut here, but neither redacted nor escaped.
func commandOf(args json.RawMessage) string {
	var said struct {
		Command string `json:"command"`
		Cmd     string `json:"cmd"`
	}
	_ = json.Unmarshal(args, &said) // another tool has neither
	text := cmp.Or(said.Command, said.Cmd, string(args))
	if len(text) > maxCommand {
		text = strings.ToValidUTF8(text[:maxCommand], "") + "…"
	}
	return text
}

// Caller is who asks for a job.
type Caller struct {
	Account string
	Any     bool   // an operator, who reaches jobs of every account
	Session string // "" is every session
}

func (c Caller) reaches(j *Job) bool {
	return (c.Any || c.Account == j.info.Account) && (c.Session == "" || c.Session == j.info.Session)
}

// Find returns a job by its id.
func (js *Jobs) Find(who Caller, id string) (*Job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.prune()
	if j := js.all[id]; j != nil && j.answered && who.reaches(j) {
		return j, nil
	}
	hint := "TaskList lists the jobs of this session"
	if !strings.HasPrefix(id, "job_") {
		hint = "ids of jobs begin with job_; " + hint
	}
	return nil, &tool.Error{Code: "job_not_found", Msg: fmt.Sprintf("there is no job %.100q here", id), Hint: hint}
}

// List returns jobs, the newest first.
func (js *Jobs) List(who Caller) []Info {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.prune()
	out := []Info{}
	for _, j := range js.all {
		if j.answered && who.reaches(j) {
			out = append(out, j.snapshot())
		}
	}
	slices.SortFunc(out, func(a, b Info) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	return out
}

// prune deletes the jobs that ended long ago, and the oldest ones of an account that has too many. js.mu is held.
func (js *Jobs) prune() {
	byAccount := map[string][]*Job{}
	for _, j := range js.all {
		if j.ended() {
			byAccount[j.info.Account] = append(byAccount[j.info.Account], j)
		}
	}
	for _, ended := range byAccount {
		slices.SortFunc(ended, func(a, b *Job) int { return b.info.Ended.Compare(a.info.Ended) })
		for i, j := range ended {
			if i >= js.config.KeepEnded || time.Since(j.info.Ended) > js.config.Keep {
				js.drop(j)
			}
		}
	}
}

// drop deletes a job that has ended, with its files. js.mu is held.
func (js *Jobs) drop(j *Job) {
	delete(js.all, j.info.ID)
	j.dropped = true
	j.out.end()
	js.remove(j.info.ID)
}

// running returns the jobs that have not ended and for which of holds.
func (js *Jobs) running(of func(*Job) bool) []*Job {
	js.mu.Lock()
	defer js.mu.Unlock()
	var out []*Job
	for _, j := range js.all {
		if !j.ended() && of(j) {
			out = append(out, j)
		}
	}
	return out
}

// kept returns how many bytes the output of the jobs of each session takes on the disk.
func (js *Jobs) kept() map[string]int64 {
	js.mu.Lock()
	defer js.mu.Unlock()
	all := map[string]int64{}
	for _, j := range js.all {
		all[j.info.Session] += j.out.size()
	}
	return all
}

// Forget ends the jobs of a session and forgets them.
func (js *Jobs) Forget(_ context.Context, s tool.Session) error {
	mine := js.running(func(j *Job) bool { return j.info.Session == s.ID })
	for _, j := range mine {
		j.kill("the end of its session")
	}
	for _, j := range mine {
		<-j.gone // and not its end: a person may be asked about the result
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.all {
		if j.info.Session == s.ID {
			js.drop(j)
		}
	}
	return nil
}

// Close ends all jobs. Their files stay for the next daemon.
func (js *Jobs) Close() error {
	js.mu.Lock()
	js.closed = true
	js.mu.Unlock()
	all := js.running(func(*Job) bool { return true })
	for _, j := range all {
		j.kill("the end of the daemon")
	}
	for _, j := range all {
		<-j.done
	}
	return nil
}

// reload puts another configuration in force, for new jobs.
func (js *Jobs) reload(c *Config) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.config = c
	js.prune()
}
