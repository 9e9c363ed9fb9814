package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// world is jobs over a directory, with what they say.
type world struct {
	*Jobs
	t     *testing.T
	dir   string
	mu    sync.Mutex
	heard []events.Event
	notes []tool.Note
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.open(change...)
	return w
}

func (w *world) open(change ...func(*Config)) {
	w.t.Helper()
	c := Defaults()
	for _, f := range change {
		f(c)
	}
	var err error
	w.Jobs, err = Open(w.t.Context(), Options{
		Dir: w.dir, Config: c, Log: slog.New(slog.DiscardHandler),
		Publish: func(e events.Event) { w.mu.Lock(); defer w.mu.Unlock(); w.heard = append(w.heard, e) },
		Record:  func(_ context.Context, n tool.Note) error { w.notes = append(w.notes, n); return nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) said(t events.Type) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.heard {
		if e.Type == t {
			n++
		}
	}
	return n
}

// program is what a job runs: it serves the ports of a listener, and is ended by terminated.
type program struct {
	sandbox.Proc
	port       net.Addr
	terminated func(time.Duration)
}

func (p *program) Terminate(grace time.Duration) {
	if p.terminated != nil {
		p.terminated(grace)
	}
}

func (p *program) Apart() bool           { return false }
func (*program) Sweep() []sandbox.Denial { return nil }

func (p *program) Dial(context.Context, uint16) (net.Conn, error) {
	if p.port == nil {
		return nil, syscall.ECONNREFUSED
	}
	return net.Dial("tcp", p.port.String())
}

var nobody = Caller{Account: "a", Session: "s"}

func call(command string) *tool.Call {
	args, _ := json.Marshal(map[string]any{"command": command})
	c := tool.NewCall(tool.Request{Account: "a", Session: "s", Tool: "Bash", Args: args})
	c.Session = tool.Session{ID: "s", Account: "a"}
	c.Spec.Name, c.In.Args = "Bash", args
	return c
}

// begin is a job that runs and was answered.
func (w *world) begin(withheld bool) (*Job, *tool.Call) {
	w.t.Helper()
	c := call("work\nmore")
	opened, err := w.Open(c, withheld)
	if err != nil {
		w.t.Fatal(err)
	}
	j := opened.(*Job)
	j.Started(&program{})
	j.Detach(func(error) {})
	return j, c
}

func (j *Job) finish(c *tool.Call, exit sandbox.Exit, r tool.Result) {
	j.Ended(exit)
	c.Result = r
	j.Close(c)
}

var fine = tool.Result{Status: tool.StatusSuccess, VarResult: "Bash_1_result"}

func code(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// TestAJobFromItsBeginToTheNextDaemon: found only when its caller was answered, and readable
// while it runs, afterwards and by the next daemon.
func TestAJobFromItsBeginToTheNextDaemon(t *testing.T) {
	w := newWorld(t)
	c := call("work\nmore")
	opened, err := w.Open(c, false)
	if err != nil {
		t.Fatal(err)
	}
	j := opened.(*Job)
	if _, err := w.Find(nobody, j.ID()); code(err) != "job_not_found" || len(w.List(nobody)) != 0 {
		t.Errorf("it is there before its caller is answered: %v", err)
	}
	j.Started(&program{})
	io.WriteString(j.Output(), "first\n")
	data, text := j.Detach(func(error) {})
	if seen := j.lastRead(); seen != int64(len("first\n")) {
		t.Errorf("the answer has what was printed, and the model has read up to %d", seen)
	}
	if a := data.(answer); a.ID != j.ID() || a.Output != "first\n" || !strings.Contains(text, j.ID()) ||
		!strings.HasPrefix(a.ID, "job_") {
		t.Errorf("got %+v, %q", data, text)
	}
	if w.said(events.JobStarted) != 1 {
		t.Errorf("heard %v", w.heard)
	}
	io.WriteString(j.Output(), "second\n")
	if r, err := j.report(6); err != nil || r.State != Running || r.Output != "second\n" || r.Next != 13 {
		t.Errorf("got %+v, %v", r, err)
	}
	j.finish(c, sandbox.Exit{Code: 3}, fine)
	check := func() {
		t.Helper()
		j, err := w.Find(nobody, j.ID())
		if err != nil {
			t.Fatal(err)
		}
		r, err := j.report(0)
		if err != nil || r.State != Exited || *r.ExitCode != 3 || r.Output != "first\nsecond\n" ||
			r.Variable != "Bash_1_result" || r.Command != "work\nmore" || r.Ended.IsZero() || r.By != "" {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	check()
	if w.said(events.JobEnded) != 1 {
		t.Errorf("heard %v", w.heard)
	}
	w.Close()
	w.open()
	check()
	if len(w.notes) != 0 {
		t.Errorf("told as lost: %v", w.notes)
	}
}

// TestAJobOfADaemonThatWentAwayIsLost: and told once; one that nobody was told of leaves
// nothing.
func TestAJobOfADaemonThatWentAwayIsLost(t *testing.T) {
	w := newWorld(t)
	j, _ := w.begin(false)
	io.WriteString(j.Output(), "until then")
	if _, err := w.Open(call("unknown"), false); err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile(filepath.Join(w.dir, j.ID()+outputSuffix))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile(filepath.Join(w.dir, j.ID()+infoSuffix))
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(w.dir, "job_broken.json"), []byte("{"), 0o600)
	os.WriteFile(filepath.Join(w.dir, "job_copy.json"), info, 0o600) // names another job
	os.WriteFile(filepath.Join(w.dir, "job_copy"+outputSuffix), printed, 0o600)
	for range 2 {
		w.open()
		all := w.List(nobody)
		if len(all) != 1 || all[0].State != Lost || all[0].Printed != 10 || len(w.notes) != 1 || w.notes[0].Name != "job_lost" {
			t.Fatalf("got %+v, told %v", all, w.notes)
		}
	}
	if files, _ := os.ReadDir(w.dir); len(files) != 2 {
		t.Errorf("left: %v", files)
	}
}

// TestALostJobThatIsNotRecordedIsKept: people find it and its output, and the next daemon records it.
func TestALostJobThatIsNotRecordedIsKept(t *testing.T) {
	w := newWorld(t)
	j, _ := w.begin(false)
	io.WriteString(j.Output(), "until then")
	js, err := Open(t.Context(), Options{
		Dir: w.dir, Config: Defaults(), Log: slog.New(slog.DiscardHandler),
		Record: func(context.Context, tool.Note) error { return errors.New("the disk is full") },
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := js.Find(nobody, j.ID())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := found.report(0); err != nil || r.State != Lost || r.Output != "until then" {
		t.Errorf("got %+v, %v", r, err)
	}
	for range 2 {
		w.open()
		if all := w.List(nobody); len(all) != 1 || all[0].State != Lost || len(w.notes) != 1 || w.notes[0].Name != "job_lost" {
			t.Fatalf("the next daemon: got %+v, told %v", all, w.notes)
		}
	}
}

func TestStates(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stop  string // by whom
		exit  sandbox.Exit
		r     tool.Result
		state State
		by    string
	}{
		{"it ended", "", sandbox.Exit{}, fine, Exited, ""},
		{"it caught the signal and said 0", "the agent", sandbox.Exit{}, fine, Killed, "the agent"},
		{"a signal", "", sandbox.Exit{Code: 137, Signal: "SIGKILL"}, fine, Killed, "a signal"},
		{"a limit", "", sandbox.Exit{Code: 137, Signal: "SIGKILL", Limit: "memory"}, fine, Killed, "the limit of memory"},
		{"its time", "", sandbox.Exit{Code: 137, TimedOut: true}, fine, Killed, "its time limit"},
		{
			"a cancelled call", "",
			sandbox.Exit{},
			tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: "cancelled", Stage: "run"}},
			Killed, "a cancelled call",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			j, c := w.begin(false)
			if tt.stop != "" {
				done, stop := context.WithCancel(t.Context())
				stop()
				j.Stop(done, tt.stop)
			}
			j.finish(c, tt.exit, tt.r)
			if i := j.Info(); i.State != tt.state || i.By != tt.by {
				t.Errorf("got %s by %q", i.State, i.By)
			}
			// Who comes too late has not killed it.
			if i, err := j.Stop(t.Context(), "somebody"); err != nil || i.By != tt.by {
				t.Errorf("after the end: %+v, %v", i, err)
			}
		})
	}
}

// TestA02_WithheldOutputIsReadWhenItIsReleased: and leaves no trace when it is not.
func TestA02_WithheldOutputIsReadWhenItIsReleased(t *testing.T) {
	rejected := tool.Result{Status: tool.StatusResultRejected, Error: &tool.Error{Code: "result_rejected", Stage: "approve"}}
	failed := tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: "limit_memory", Stage: "run", Msg: "SECRET"}}
	byHook := tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: "result_withheld", Stage: "after"}}
	for _, tt := range []struct {
		name     string
		r        tool.Result
		released bool
	}{{"released", fine, true}, {"failed and released", failed, true}, {"rejected", rejected, false}, {"hook", byHook, false}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			j, c := w.begin(true)
			io.WriteString(j.Output(), "SECRET")
			if r, err := j.report(0); err != nil || strings.Contains(fmt.Sprintf("%+v", r), "SECRET") || r.note == "" {
				t.Errorf("while it runs: %+v, %v", r, err)
			}
			followed := make(chan string)
			go func() {
				text := ""
				j.Follow(context.Background(), 0, func(event []byte, _ int64) error { text += printedIn(t, event).Text; return nil })
				followed <- text
			}()
			j.finish(c, sandbox.Exit{}, tt.r)
			if got := <-followed; (got == "SECRET") != tt.released {
				t.Errorf("a reader got %q", got)
			}
			if r, err := j.report(0); err != nil || (r.Output == "SECRET") != tt.released {
				t.Errorf("afterwards: %+v, %v", r, err)
			}
			var disk []byte
			for _, suffix := range []string{infoSuffix, outputSuffix} {
				b, err := os.ReadFile(w.path(j.ID(), suffix))
				if err != nil {
					t.Fatal(err)
				}
				disk = append(disk, b...)
			}
			if strings.Contains(string(disk), "SECRET") != tt.released {
				t.Errorf("the disk has %q", disk)
			}
			out, err := os.Stat(w.path(j.ID(), outputSuffix))
			if err != nil || w.kept()["s"] != out.Size() {
				t.Errorf("it counts as %d bytes, the file has %d, %v", w.kept()["s"], out.Size(), err)
			}
		})
	}
}

func TestThereIsRoomForSoManyJobs(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.PerSession, c.PerAccount = 2, 3 })
	first, c := w.begin(false)
	w.begin(false)
	if _, err := w.Open(call("x"), false); code(err) != "too_many_jobs" || !strings.Contains(err.Error(), "session") {
		t.Errorf("got %v", err)
	}
	other := call("x")
	other.Session.ID = "other"
	if _, err := w.Open(other, false); err != nil {
		t.Error(err)
	}
	if _, err := w.Open(other, false); code(err) != "too_many_jobs" || !strings.Contains(err.Error(), "account") {
		t.Errorf("got %v", err)
	}
	first.finish(c, sandbox.Exit{}, fine)
	if _, err := w.Open(call("x"), false); err != nil {
		t.Errorf("one has ended: %v", err)
	}
}

func TestOnlyTheLastThatEndedAreKept(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.KeepEnded = 2 })
	var ids []string
	for range 4 {
		j, c := w.begin(false)
		j.finish(c, sandbox.Exit{}, fine)
		ids = append(ids, j.ID())
	}
	if files, _ := os.ReadDir(w.dir); len(files) != 4 { // nobody has listed them
		t.Errorf("on the disk: %v", files)
	}
	all := w.List(nobody)
	if len(all) != 2 || all[0].ID != ids[3] || all[1].ID != ids[2] {
		t.Errorf("got %+v", all)
	}
	w.mu.Lock()
	w.all[ids[3]].info.Ended = time.Now().Add(-w.config.Keep - time.Second)
	w.mu.Unlock()
	if _, err := w.Find(nobody, ids[3]); code(err) != "job_not_found" {
		t.Errorf("a job that ended long ago: %v", err)
	}
	if _, err := w.Find(nobody, ids[2]); err != nil {
		t.Error(err)
	}
}

func TestJobsEndWithTheirSession(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	ended := make(chan bool)
	j.program.(*program).terminated = func(grace time.Duration) {
		if grace != 0 {
			t.Errorf("it gets %v", grace)
		}
		go func() { j.finish(c, sandbox.Exit{Code: 137, Signal: "SIGKILL"}, fine); close(ended) }()
	}
	if err := w.Forget(t.Context(), tool.Session{ID: "s", Account: "a"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the job runs on")
	}
	if files, _ := os.ReadDir(w.dir); len(files) != 0 || len(w.List(nobody)) != 0 {
		t.Errorf("left: %v", files)
	}
	if i := j.Info(); i.State != Killed || i.By != "the end of its session" {
		t.Errorf("got %+v", i)
	}
}

func TestOthersDoNotReachAJob(t *testing.T) {
	w := newWorld(t)
	j, _ := w.begin(false)
	for _, tt := range []struct {
		who Caller
		ok  bool
	}{
		{Caller{Account: "a"}, true},
		{Caller{Account: "a", Session: "s"}, true},
		{Caller{Account: "a", Session: "other"}, false},
		{Caller{Account: "b"}, false},
		{Caller{Account: "b", Any: true}, true},
	} {
		_, err := w.Find(tt.who, j.ID())
		if (err == nil) != tt.ok || (len(w.List(tt.who)) == 1) != tt.ok {
			t.Errorf("%+v: %v", tt.who, err)
		}
	}
}

func TestTyping(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	if err := j.Type("x", false); code(err) != "job_without_input" {
		t.Errorf("got %v", err)
	}
	in, err := j.Input()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Type("yes\n", true); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(in); err != nil || string(b) != "yes\n" {
		t.Errorf("the program read %q, %v", b, err)
	}
	if in, err = j.Input(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := j.Type("x", false); code(err) != "input_closed" {
		t.Errorf("got %v", err)
	}
	if err := j.Resize(1, 1); code(err) != "job_without_terminal" {
		t.Errorf("got %v", err)
	}
	j.finish(c, sandbox.Exit{}, fine)
	if err := j.Type("x", false); code(err) != "job_ended" {
		t.Errorf("got %v", err)
	}
}

// A program that does not read does not hold up who types, who learns how much it read.
func TestAProgramThatDoesNotRead(t *testing.T) {
	t.Parallel() // it waits for inputTime
	w := newWorld(t)
	j, _ := w.begin(false)
	in, err := j.Input()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	err = j.Type(strings.Repeat("x", 1<<20), false)
	if code(err) != "input_not_read" || !strings.Contains(err.Error(), "of 1048576 bytes in 5s") {
		t.Errorf("got %v", err)
	}
}

// A job whose output cannot be kept does not begin.
func TestAJobWhoseOutputCannotBeKept(t *testing.T) {
	w := newWorld(t)
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open(call("x"), false); code(err) != "job_not_kept" || len(w.List(nobody)) != 0 {
		t.Errorf("got %v, and %d jobs", err, len(w.List(nobody)))
	}
}

// TestOutputThatTheDiskRefuses: what came before it can be read, what comes later is lost, and the job says why.
func TestOutputThatTheDiskRefuses(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	io.WriteString(j.Output(), "kept\n")
	j.out.f.Close()
	for range 2 {
		if _, err := io.WriteString(j.Output(), "lost\n"); err != nil {
			t.Errorf("the program hears of it: %v", err)
		}
	}
	j.finish(c, sandbox.Exit{}, fine)
	if i := j.Info(); i.State != Exited || i.Printed != 5 || !strings.HasPrefix(i.Error, "keep the output of a job: ") {
		t.Errorf("got %+v", i)
	}
	if r, err := j.report(0); err != nil || r.Output != "kept\n" {
		t.Errorf("it is read as %q, %v", r.Output, err)
	}
}

// printedIn is what an event says.
func printedIn(t *testing.T, event []byte) (p tool.Printed) {
	t.Helper()
	_, data, ok := strings.Cut(string(event), "\nevent: output\ndata: ")
	if err := json.Unmarshal([]byte(data), &p); !ok || err != nil {
		t.Errorf("%v in %q", err, event)
	}
	return p
}

// TestOneAnswerHasAPartOfTheOutput: who reads on at its next offset gets all of it.
func TestOneAnswerHasAPartOfTheOutput(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	io.WriteString(j.Output(), strings.Repeat("x", 300<<10))
	j.finish(c, sandbox.Exit{}, fine)
	const most = 256 << 10
	if r, err := j.report(0); err != nil || len(r.Output) != most || r.Offset != 0 || r.Next != most {
		t.Errorf("got %d bytes from %d, next %d, %v", len(r.Output), r.Offset, r.Next, err)
	}
	if r, err := j.report(most); err != nil || len(r.Output) != 44<<10 || r.Offset != most || r.Next != 300<<10 {
		t.Errorf("then %d bytes from %d, next %d, %v", len(r.Output), r.Offset, r.Next, err)
	}
}

// TestHalfACharacterWaitsForItsRest: and comes as what it is at the end.
func TestHalfACharacterWaitsForItsRest(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	got, first := make(chan string), make(chan bool, 100)
	go func() {
		text := ""
		j.Follow(context.Background(), 0, func(event []byte, _ int64) error { text += printedIn(t, event).Text; first <- true; return nil })
		got <- text
	}()
	io.WriteString(j.Output(), "a\xc3")
	<-first
	io.WriteString(j.Output(), "\xa4")
	<-first
	io.WriteString(j.Output(), "\xe2\x82")
	j.finish(c, sandbox.Exit{}, fine)
	if text := <-got; text != "aä�" {
		t.Errorf("got %q", text)
	}
}

func TestTools(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	io.WriteString(j.Output(), "one\ntwo\n")
	tools := map[string]tool.Tool{}
	for _, x := range w.Group().Tools {
		tools[x.Spec().Name] = x
	}
	var origin tool.Origin
	run := func(name, args string) (string, string) {
		t.Helper()
		in := tool.In{Account: "a", Session: "s", Args: json.RawMessage(strings.ReplaceAll(args, "JOB", j.ID()))}
		var out tool.Output
		var err error
		switch mine := (taskJobs{w.Jobs}); name { // of the tools of tasks
		case "TaskOutput":
			out, err = mine.Output(t.Context(), in)
		case "TaskStop":
			out, err = mine.Stop(t.Context(), in)
		case "TaskList":
			_, lines := mine.List(in)
			out.Text = strings.Join(lines, "\n")
		default:
			out, err = tools[name].Run(t.Context(), in, nil)
		}
		origin = out.Origin
		return out.Text, code(err)
	}
	for _, tt := range []struct{ name, args, text, code string }{
		{"TaskOutput", `{"task_id":"JOB"}`, "JOB running\none\ntwo\n", "<nil>"},
		{"TaskOutput", `{"id":"JOB","offset":4}`, "JOB running\n[from byte 4 on]\ntwo\n", "<nil>"},
		{"TaskOutput", `{"id":"JOB","block":true,"timeout":1}`, "JOB running\none\ntwo\n", "<nil>"},
		{"TaskOutput", `{}`, "", "invalid_arguments"},
		{"TaskOutput", `{"id":"JOB","task_id":"JOB"}`, "", "invalid_arguments"},
		{"TaskOutput", `{"id":"job_none"}`, "", "job_not_found"},
		{"TaskStop", `{"id":"1234"}`, "", "job_not_found"},
		{"BashOutput", `{"bash_id":"JOB"}`, "JOB running", "<nil>"}, // it was read
		{"BashOutput", `{"bash_id":"JOB","filter":"("}`, "", "invalid_arguments"},
		{"TaskList", `{}`, "JOB running  work …", "<nil>"},
		{"TaskInput", `{"id":"JOB","text":"x"}`, "", "job_without_input"},
	} {
		text, code := run(tt.name, tt.args)
		if want := strings.ReplaceAll(tt.text, "JOB", j.ID()); text != want || code != tt.code {
			t.Errorf("%s %s: got %q %s, want %q %s", tt.name, tt.args, text, code, want, tt.code)
		}
	}
	io.WriteString(j.Output(), "three\nfour\n")
	j.Author(tool.OriginMCP)
	text, _ := run("BashOutput", `{"bash_id":"JOB","filter":"^f.*r$"}`)
	if text != j.ID()+" running\nfour\n" || origin != tool.OriginMCP {
		t.Errorf("got %q of %q", text, origin)
	}
	j.program.(*program).terminated = func(grace time.Duration) {
		if grace != 2*time.Second {
			t.Errorf("it has %v to clean up, want two seconds", grace)
		}
		c.Output.Origin = tool.OriginWeb
		go j.finish(c, sandbox.Exit{Code: 143, Signal: "SIGTERM"}, fine)
	}
	if text, _ := run("KillShell", `{"shell_id":"JOB"}`); text != j.ID()+" killed by the agent, exit code 143, SIGTERM" {
		t.Errorf("got %q", text)
	}
	for _, x := range [][2]string{
		{"TaskOutput", `{"id":"JOB"}`}, {"BashOutput", `{"bash_id":"JOB"}`}, {"write_stdin", `{"session_id":"JOB"}`},
	} {
		if _, code := run(x[0], x[1]); code != "<nil>" || origin != tool.OriginWeb {
			t.Errorf("%s: what it printed is of %q, %s, and its tool said %q", x[0], origin, code, tool.OriginWeb)
		}
	}
}

// TestTaskInputIsTypedAsItIs: a text without a line feed gets none.
func TestTaskInputIsTypedAsItIs(t *testing.T) {
	w := newWorld(t)
	j, _ := w.begin(false)
	in, err := j.Input()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"id":"JOB","text":"y"}`, `{"id":"JOB","text":"es\n"}`, `{"id":"JOB","text":"no","end":true}`} {
		call := tool.In{Account: "a", Session: "s", Args: json.RawMessage(strings.ReplaceAll(args, "JOB", j.ID()))}
		if _, err := (taskInput{w.Jobs}).Run(t.Context(), call, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := io.ReadAll(in); err != nil || string(b) != "yes\nno" {
		t.Errorf("the program read %q, %v", b, err)
	}
}

// TestAForbiddenJobEnds, or goes on and says so, as jobs.forbidden has it.
func TestAForbiddenJobEnds(t *testing.T) {
	for _, forbidden := range []string{forbiddenEnd, forbiddenMark} {
		w := newWorld(t, func(c *Config) { c.Forbidden = forbidden })
		j, _ := w.begin(false)
		ended := false
		j.program.(*program).terminated = func(time.Duration) { ended = true }
		j.Forbid("a rule")
		if ended != (forbidden == forbiddenEnd) || j.Info().Forbidden != "a rule" {
			t.Errorf("%s: it was ended: %v; it says %q", forbidden, ended, j.Info().Forbidden)
		}
	}
}

// TestPrintedSaysWhatIsLeftOut: the middle of a long output, and what the ring no longer keeps.
func TestPrintedSaysWhatIsLeftOut(t *testing.T) {
	const ring = 64 << 10
	old, a, b := strings.Repeat("o", 1000), strings.Repeat("a", ring/2), strings.Repeat("b", ring/2)
	for _, tt := range []struct {
		name, printed, want string
		most                int
		whole               bool
	}{
		{"all is kept", a + b, a + b, 4 * ring, true},
		{"the middle is left out", a + b, a[:50] + "...(truncated)..." + b[:50], 100, false},
		{"the beginning is not kept", old + a + b, "...(truncated)..." + a + b, 4 * ring, false},
		{"neither is there", old + a + b, "...(truncated)..." + a[:50] + "...(truncated)..." + b[:50], 100, false},
	} {
		w := newWorld(t, func(c *Config) { c.OutputBytes, c.OutputRate = ring, 1<<30 })
		j, _ := w.begin(false)
		io.WriteString(j.Output(), tt.printed)
		text, total, whole := j.Printed(tt.most)
		if text != tt.want || total != int64(len(tt.printed)) || whole != tt.whole {
			t.Errorf("%s: got %d bytes (%.40q) of %d, whole %v", tt.name, len(text), text, total, whole)
		}
	}
}
