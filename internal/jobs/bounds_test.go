package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// A value that would take all memory, or a word that nobody knows, is refused when the configuration is read.
func TestTheConfigurationIsBounded(t *testing.T) {
	if err := Defaults().Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for want, change := range map[string]func(*Config){
		"jobs.perSession: -1 is not between 0 and 10000": func(c *Config) { c.PerSession = -1 },
		"jobs.perAccount: 10001":                         func(c *Config) { c.PerAccount = 10_001 },
		"jobs.wallSeconds: -1":                           func(c *Config) { c.WallSeconds = -1 },
		"jobs.outputBytes: 65535":                        func(c *Config) { c.OutputBytes = 64<<10 - 1 },
		"jobs.outputRate: 0":                             func(c *Config) { c.OutputRate = 0 },
		"jobs.keep: -1":                                  func(c *Config) { c.Keep = -1 },
		"jobs.keepEnded: 100001":                         func(c *Config) { c.KeepEnded = 100_001 },
		`jobs.forbidden: "stop" is neither end nor mark`: func(c *Config) { c.Forbidden = "stop" },
	} {
		c := Defaults()
		change(c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A job runs as long as the shorter of what a policy and the configuration say; 0 is no bound.
func TestHowLongAJobMayRun(t *testing.T) {
	for _, tt := range []struct{ configured, policy, want int }{
		{0, 0, 0}, {0, 5, 5}, {9, 0, 9}, {9, 5, 5}, {9, 20, 9},
	} {
		c := call("x")
		c.Decision.Obligations.WallSeconds = tt.policy
		got := wallOf(c, &Config{WallSeconds: tt.configured})
		if got != time.Duration(tt.want)*time.Second {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// Of a long command its beginning is kept, whole in its characters.
func TestALongCommandIsCut(t *testing.T) {
	for command, want := range map[string]int{strings.Repeat("x", 500): 500, strings.Repeat("ü", 400): 500 + len("…")} {
		got := commandOf(call(command).In.Args)
		if len(got) != want || !utf8.ValidString(got) || strings.HasSuffix(got, "…") != (want > 500) {
			t.Errorf("%d bytes became %d: %q", len(command), len(got), got)
		}
	}
	if got := commandOf([]byte(`{"cmd":"ls"}`)); got != "ls" {
		t.Errorf("a command of another tool is %q", got)
	}
}

// A reader goes on behind its last event, and is told when that is of another job or no offset.
func TestWhereAReaderBegins(t *testing.T) {
	for _, tt := range []struct {
		query, last string
		want        int64 // -1: refused
	}{
		{"", "", 0},
		{"offset=7", "", 7},
		{"offset=7", "job_1.9", 9},
		{"", "job_2.9", -1},
		{"", "job_1", 0},
		{"", "job_1.x", -1},
		{"offset=-1", "", -1},
		{"offset=x", "", -1},
	} {
		r := httptest.NewRequest(http.MethodGet, "/?"+tt.query, nil)
		if tt.last != "" {
			r.Header.Set("Last-Event-ID", tt.last)
		}
		got, err := offsetOf(r, "job_1")
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%+v: got %d, %v", tt, got, err)
		}
	}
}

// The routes refuse numbers that no terminal and no port have, before they look for the job.
func TestNumbersOfRoutesAreBounded(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	ask := func(handle func(*http.Request) (any, error), role tool.Role, body string) (any, error) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.SetPathValue("job", j.ID())
		r.SetPathValue("id", j.ID())
		return handle(r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "a", Role: role, UID: 7})))
	}
	for body, want := range map[string]string{
		`{"rows":0,"columns":1}`: "from 1 to 1000", `{"rows":1,"columns":0}`: "from 1 to 1000",
		`{"rows":1001,"columns":1}`: "from 1 to 1000", `{"rows":1,"columns":1001}`: "from 1 to 1000",
	} {
		if _, err := ask(w.resize, tool.RoleAgent, body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a window of %s: %v", body, err)
		}
	}
	for _, body := range []string{`{"port":0}`, `{"port":65536}`, `{"port":80,"at":-1}`, `{"port":80,"at":65536}`} {
		_, err := ask(w.forward, tool.RoleOperator, body)
		if err == nil || !strings.Contains(err.Error(), "from 1 to 65535") {
			t.Errorf("a port of %s: %v", body, err)
		}
	}
	r := httptest.NewRequest(http.MethodDelete, "/", nil)
	r.SetPathValue("port", "web")
	if _, err := w.endForward(r); err == nil || !strings.Contains(err.Error(), "the port is no number") {
		t.Errorf("the end of a port that is none: %v", err)
	}
	// Ports are offered up to a bound, and the operator who stops a job is named.
	for port := range maxForwards {
		if _, err := j.Forward(port+1, 0, unrecorded); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Forward(maxForwards+1, 0, unrecorded); code(err) != "port_taken" {
		t.Errorf("one port more: %v", err)
	}
	j.program.(*program).terminated = func(time.Duration) { go j.finish(c, sandbox.Exit{}, fine) }
	out, err := ask(w.stopJob, tool.RoleOperator, "")
	if info, ok := out.(Info); !ok || err != nil || info.By != "operator uid:7" {
		t.Errorf("stopped: %+v, %v", out, err)
	}
}

// A line says all that became of a job, and a job whose call was not answered is in no list and on no disk.
func TestWhatBecameOfAJob(t *testing.T) {
	status := 1
	i := Info{
		ID: "job_1", State: Killed, By: "the agent", ExitCode: &status, Signal: "SIGTERM", Error: "full",
		OutOfReach: "newer",
	}
	want := "job_1 killed by the agent, exit code 1, SIGTERM: full; its ports are out of reach: newer"
	if got := i.line(); got != want {
		t.Errorf("got %q", got)
	}
	w := newWorld(t)
	c := call("x")
	opened, err := w.Open(c, false)
	if err != nil {
		t.Fatal(err)
	}
	j := opened.(*Job)
	j.Started(&program{})
	j.finish(c, sandbox.Exit{}, fine)
	if _, err := w.Find(nobody, j.ID()); code(err) != "job_not_found" || len(w.List(nobody)) != 0 {
		t.Errorf("a job that no answer names is found: %v", err)
	}
	if files, _ := os.ReadDir(w.dir); len(files) != 0 {
		t.Errorf("of a job that no answer names %v is left", files)
	}
	// A job that was ended before it began is ended when it begins.
	opened, err = w.Open(c, false)
	if err != nil {
		t.Fatal(err)
	}
	j = opened.(*Job)
	j.Detach(func(error) {})
	j.kill("the agent")
	ended := false
	j.Started(&program{terminated: func(time.Duration) { ended = true }})
	if !ended {
		t.Error("a killed job runs")
	}
	j.finish(c, sandbox.Exit{}, fine)
}

// What is no longer kept before the text that is read is counted, and the text begins with a whole character.
func TestWhatIsNoLongerKeptIsSaid(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.OutputBytes, c.OutputRate = 64<<10, 1<<30 })
	j, c := w.begin(false)
	defer j.finish(c, sandbox.Exit{}, fine)
	if _, err := io.WriteString(j.Output(), strings.Repeat("x€€€€€\n", 40_000)); err != nil {
		t.Fatal(err)
	}
	r, err := j.report(0)
	if err != nil || r.Offset == 0 || !strings.Contains(r.note, "bytes before this are no longer kept]") {
		t.Errorf("at %d it says %q, %v", r.Offset, r.note, err)
	}
	for more := range 3 {
		io.WriteString(j.Output(), "x")
		if r, err := j.report(0); err != nil || strings.ContainsRune(r.Output, utf8.RuneError) {
			t.Errorf("%d bytes more: it begins with %.10q, %v", more+1, r.Output, err)
		}
	}
}

// A rule that permits a job again takes its mark away; each change is recorded once.
func TestAForbiddenJobIsAllowedAgain(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Forbidden = forbiddenMark })
	j, c := w.begin(false)
	for _, why := range []string{"", "a rule", "a rule", "", ""} {
		j.Forbid(why)
	}
	var names []string
	for _, n := range w.notes {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, " "); got != "job_forbidden job_allowed_again" || j.Info().Forbidden != "" {
		t.Errorf("recorded %q, and it says %q", got, j.Info().Forbidden)
	}
	j.finish(c, sandbox.Exit{}, fine)
	if j.Forbid("a rule"); j.Info().Forbidden != "" {
		t.Error("a job that has ended is forbidden")
	}
}

// New numbers hold at once.
func TestANewConfigurationHoldsAtOnce(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		j, c := w.begin(false)
		j.finish(c, sandbox.Exit{}, fine)
	}
	c := Defaults()
	c.KeepEnded, c.PerSession = 1, 0
	w.reload(c)
	if files, _ := os.ReadDir(w.dir); len(files) != 2 || len(w.List(nobody)) != 1 {
		t.Errorf("%d that ended are kept, want 1; on the disk: %v", len(w.List(nobody)), files)
	}
	if _, err := w.Open(call("x"), false); code(err) != "too_many_jobs" {
		t.Errorf("got %v", err)
	}
}

// Whoever waits for a job is answered after a while, which the call may choose within bounds.
func TestHowLongAToolWaitsForAJob(t *testing.T) {
	type runs func(context.Context, *Jobs, tool.In) (tool.Output, error)
	output := func(ctx context.Context, js *Jobs, in tool.In) (tool.Output, error) {
		return taskJobs{js}.Output(ctx, in)
	}
	stdin := func(ctx context.Context, js *Jobs, in tool.In) (tool.Output, error) {
		return writeStdin{js}.Run(ctx, in, nil)
	}
	for _, tt := range []struct {
		run  runs
		args string
		want time.Duration
	}{
		{output, `{"id":"JOB","timeout":5000}`, 0},
		{output, `{"id":"JOB","block":true}`, 30 * time.Second},
		{output, `{"id":"JOB","block":true,"timeout":1500}`, 1500 * time.Millisecond},
		{output, `{"id":"JOB","block":true,"timeout":86400000}`, 10 * time.Minute},
		{stdin, `{"session_id":"JOB"}`, 250 * time.Millisecond},
		{stdin, `{"session_id":"JOB","yield_time_ms":1500}`, 1500 * time.Millisecond},
		{stdin, `{"session_id":"JOB","yield_time_ms":86400000}`, 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			j, c := w.begin(false)
			defer j.finish(c, sandbox.Exit{}, fine)
			in := tool.In{Account: "a", Session: "s", Args: []byte(strings.ReplaceAll(tt.args, "JOB", j.ID()))}
			began := time.Now()
			if _, err := tt.run(t.Context(), w.Jobs, in); err != nil || time.Since(began) != tt.want {
				t.Errorf("%s: answered after %v, %v, want %v", tt.args, time.Since(began), err, tt.want)
			}
		})
	}
}

// Readers hear of new output soon; many of them less often, and never more than a second later.
func TestHowOftenReadersHear(t *testing.T) {
	for _, tt := range []struct {
		readers  int
		from, to time.Duration
	}{
		{1, 50 * time.Millisecond, 50 * time.Millisecond},
		{200, 51 * time.Millisecond, time.Second},
		{100_000, time.Second, time.Second},
	} {
		r := readers{n: tt.readers, told: make(chan struct{})}
		if got := r.tell(t.Context(), 0, false); got < tt.from || got > tt.to {
			t.Errorf("%d readers wait %v, want %v to %v", tt.readers, got, tt.from, tt.to)
		}
	}
}

// A reader takes memory of its account, sees by the offset what it has missed, and can go on behind each event.
func TestAReaderSeesWhatItMissed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.OutputBytes, c.OutputRate = 64<<10, 1<<30 })
	j, c := w.begin(false)
	if _, err := j.Output().Write(bytes.Repeat([]byte("x"), 100<<10)); err != nil {
		t.Fatal(err)
	}
	j.finish(c, sandbox.Exit{}, fine)
	hold, err := budget.New(budget.Limits{Bytes: budget.Least}).Request("a")
	if err != nil {
		t.Fatal(err)
	}
	held := func() (bytes int) {
		if _, err := fmt.Sscanf(hold.Take(1<<40).Error(), "the request needs %d bytes", &bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetPathValue("id", j.ID())
	r.Header.Set("Accept", "text/event-stream")
	r = r.WithContext(budget.With(route.WithCaller(r.Context(), route.Caller{Account: "a"}), hold))
	before := held()
	out, err := w.output(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := held() - before; got != 64<<10 {
		t.Errorf("a reader takes %d bytes, want 64 KiB", got)
	}
	sent := httptest.NewRecorder()
	route.ServeStream(sent, r, out.(route.Stream))
	first, _, _ := strings.Cut(sent.Body.String(), "\n\n")
	p := printedIn(t, []byte(first))
	id := fmt.Sprintf("id: %s.%d\n", j.ID(), p.Offset+int64(len(p.Text)))
	if p.Offset != 36<<10 || len(p.Text) == 0 || !strings.HasPrefix(first, id) {
		t.Errorf("the first event is of offset %d with %d bytes: %.100q", p.Offset, len(p.Text), first)
	}
}

// A job that its daemon ends says so, also to the next one.
func TestJobsEndWithTheirDaemon(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	j.program.(*program).terminated = func(time.Duration) {
		go j.finish(c, sandbox.Exit{Code: 137, Signal: "SIGKILL"}, fine)
	}
	said := w.part().Status
	if got := fmt.Sprint(said()); got != "map[running:1]" {
		t.Errorf("the status says %s", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(said()); got != "map[running:0]" {
		t.Errorf("at the end the status says %s", got)
	}
	if _, err := w.Open(call("late"), false); code(err) != "stopping" {
		t.Errorf("a daemon that stops begins a job: %v", err)
	}
	w.open()
	if all := w.List(nobody); len(all) != 1 || all[0].State != Killed || all[0].By != "the end of the daemon" {
		t.Errorf("got %+v", all)
	}
}

// What Codex types goes to the program as it is, and the answer is what is new, cut to about so many tokens.
func TestWriteStdin(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	defer j.finish(c, sandbox.Exit{}, fine)
	run := func(args string) (string, string) {
		t.Helper()
		args = `{"session_id":"` + j.ID() + `","yield_time_ms":0` + args + `}`
		in := tool.In{Account: "a", Session: "s", Args: []byte(args)}
		out, err := writeStdin{w.Jobs}.Run(t.Context(), in, nil)
		return strings.TrimPrefix(out.Text, j.ID()+" running"), code(err)
	}
	write := func(text string) {
		if _, err := io.WriteString(j.Output(), text); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	if _, code := run(`,"chars":"x"`); code != "job_without_input" {
		t.Errorf("without an input: %s", code)
	}
	if text, code := run(""); text != "\none\n" || code != "<nil>" {
		t.Errorf("it read %q, %s", text, code)
	}
	in, err := j.Input()
	if err != nil {
		t.Fatal(err)
	}
	write("two\n")
	if text, code := run(`,"chars":"ls\n"`); !strings.HasSuffix(text, "\ntwo\n") || strings.Contains(text, "one") {
		t.Errorf("it read %q, %s", text, code)
	}
	typed := make([]byte, 3)
	if _, err := io.ReadFull(in, typed); err != nil || string(typed) != "ls\n" {
		t.Errorf("the program read %q, %v", typed, err)
	}
	write(strings.Repeat("x", 1000))
	if text, code := run(`,"max_output_tokens":10`); strings.Count(text, "x") != 40 {
		t.Errorf("of 10 tokens it read %q, %s", text, code)
	}
}
