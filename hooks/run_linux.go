package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/sandbox/reaper"
)

// program is what runs under a reaper.
type program struct {
	argv, env      []string
	user           *identity.ID // nil: that of the daemon
	as             *tool.Actor  // whose its requests are; nil of hooks, which make none
	stdin          []byte
	stdout, stderr *capped
}

// run is a program that runs.
type run struct {
	*under
	ended  chan reaper.Report // how the program ended; closed when the reaper says no more
	left   int                // processes that the reaper could not end; read after ended is closed
	stdin  fed
	output []*collected
	forget func()
}

// start starts a program in a process group of its own. It waits for the reaper no longer than ctx lasts.
func (r *Registry) start(ctx context.Context, p program) (*run, error) {
	x := &run{ended: make(chan reaper.Report, 1), forget: func() {}}
	from, err := r.begin(ctx, x, p)
	if err != nil {
		close(x.ended)
		x.end()
		return nil, err
	}
	go x.listen(from)
	r.running.prepare(r.opts.Child)
	return x, nil
}

// begin starts the program of x.
func (r *Registry) begin(ctx context.Context, x *run, p program) (from *json.Decoder, err error) {
	path, err := exec.LookPath(p.argv[0])
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	files, err := x.pipes(p)
	for _, f := range files { // of the program; nobody else holds them, so that there is an end
		defer f.Close()
	}
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(reaper.Order{Path: []byte(path), Argv: raw(p.argv), Env: raw(p.env), User: p.user})
	if err != nil {
		return nil, err
	}
	own := p.user != nil && os.Geteuid() != 0 // root's programs have the capabilities by themselves
	if x.under, err = r.running.reaper(r.opts.Child, own); err != nil {
		return nil, fmt.Errorf("start sandboxd-child for a program: %w", err)
	}
	// Before the program starts: its first act may be a request.
	x.forget = r.running.add(x.pid, p.as)
	from = json.NewDecoder(x.daemon)
	var said reaper.Report
	if err = x.send(order, files); err == nil {
		told := make(chan struct{})
		// The program may have stopped the reaper before it says so.
		unhook := context.AfterFunc(ctx, func() { x.goOn(told) })
		err = from.Decode(&said)
		close(told)
		unhook()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("start a program under sandboxd-child: %w", err)
	case !said.Started:
		return nil, errors.New(said.Error)
	}
	return from, nil
}

func raw(all []string) [][]byte {
	out := make([][]byte, 0, len(all))
	for _, s := range all {
		out = append(out, []byte(s))
	}
	return out
}

// pipes makes stdin, stdout and stderr of a program.
func (x *run) pipes(p program) (files []*os.File, err error) {
	if x.stdin, err = feed(p.stdin); err != nil {
		return nil, err
	}
	files = append(files, x.stdin.r)
	for _, to := range []*capped{p.stdout, p.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return files, err
		}
		files = append(files, w)
		x.output = append(x.output, collect(r, to))
	}
	return files, nil
}

// listen takes what the reaper says once the program runs.
func (x *run) listen(from *json.Decoder) {
	defer close(x.ended)
	for {
		var said reaper.Report
		if from.Decode(&said) != nil {
			return
		}
		if x.left += said.Left; said.Ended {
			x.ended <- said
		}
	}
}

// wait returns how the program ended. When ctx does, which is the error then, the program is told so and gets
// a grace to end. All that is left of it is killed in the end.
func (x *run) wait(ctx context.Context, grace func() time.Duration) (reaper.Report, error) {
	said, ok := reaper.Report{}, false
	select {
	case said, ok = <-x.ended:
		if said.Alone {
			x.alone = true
		}
		x.written(ctx)
	case <-ctx.Done():
		x.terminate(grace())
	}
	x.end()
	switch {
	case x.left > 0:
		left := fmt.Errorf("%d processes that it started could not be ended", x.left)
		return said, errors.Join(context.Cause(ctx), left)
	case ctx.Err() != nil:
		return said, context.Cause(ctx)
	case !ok:
		return said, errors.New("sandboxd-child ended before its program did")
	}
	return said, nil
}

// written waits a moment for what those write that the program left behind.
func (x *run) written(ctx context.Context) {
	late := time.NewTimer(pipeGrace)
	defer late.Stop()
	for _, c := range x.output {
		select {
		case <-c.done:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// terminate asks the program to end, if it gets a grace for that.
func (x *run) terminate(grace time.Duration) {
	if grace == 0 {
		return
	}
	_ = json.NewEncoder(x.daemon).Encode(reaper.Terminate{}) // it may have ended
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-x.ended:
	case <-late.C:
	}
}

// end returns when all that the program started has ended.
func (x *run) end() {
	if x.under == nil || !x.finish() {
		for range x.ended { // until listen has read all
		}
	}
	x.forget()
	x.close()
}

// close closes the pipes between the daemon and a program. A program can have passed its output to another process that
// still holds it.
func (x *run) close() {
	if x.under != nil {
		x.daemon.Close()
	}
	if x.stdin.w != nil {
		x.stdin.close()
	}
	for _, c := range x.output {
		c.end(pipeGrace)
	}
}

// collected is the reading end of an output.
type collected struct {
	r    *os.File
	done chan struct{} // closed when nothing more comes
}

func collect(r *os.File, to io.Writer) *collected {
	c := &collected{r, make(chan struct{})}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(to, r) // nil, or that end closed it
	}()
	return c
}

func (c *collected) end(grace time.Duration) {
	select {
	case <-c.done:
	case <-time.After(grace):
	}
	c.r.Close()
	<-c.done
}
