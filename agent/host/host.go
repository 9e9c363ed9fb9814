// Package host finds the daemon of this user, or starts one, and opens a session in it.
//
//	socket, err := host.Find(ctx, dir, os.Getenv, say)                // starts one, if need be
//	session, err := host.Open(ctx, client.New(socket), host.Choice{}) // a new one
//
// If no daemon answers, Find starts one that serves only dir, an absolute path, and says so. The daemon runs on after
// the agent ends, and gets none of Keys. Find starts none if SANDBOXD_SOCKET names a socket, or if this user may not
// use the one at hand. env must give the environment of this process. An error of Find means that no daemon answers.
// Open fails if Continue finds no conversation of Dir, which it needs. The tests in agent/integration use real daemons.
package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/paths"
)

// Keys are the variables that may hold the key of a model. A new one must be added here: the daemon gets all others.
var Keys = []string{"CODEANY_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"}

// Find returns the path of the socket of a daemon, if need be of one that it starts for dir; with an error perhaps "".
func Find(ctx context.Context, dir string, env func(string) string, say func(string)) (string, error) {
	socket := paths.AgentSocket(env)
	conn, err := net.Dial("unix", socket)
	if err == nil {
		conn.Close()
		return socket, nil
	}
	absent := errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
	if !absent || env("SANDBOXD_SOCKET") != "" {
		return socket, client.New(socket).Do(ctx, http.MethodGet, "/status", nil, nil)
	}
	return socket, start(ctx, dir, socket, say)
}

// patience is how long a daemon may take to start.
const patience = 60 * time.Second

func start(ctx context.Context, dir, socket string, say func(string)) error {
	program, err := programFor(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return fmt.Errorf("make the directory of the socket: %w", err)
	}
	name := filepath.Join(filepath.Dir(socket), "serve.log")
	_ = os.Rename(name, name+".old") // also what is no file: a link, or a FIFO that nobody reads
	log, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of the daemon: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, "serve")
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(Keys, name)
	}), "SANDBOXD_WORKSPACE_ROOTS="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the agent
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for client.New(socket).Do(ctx, http.MethodGet, "/status", nil, nil) != nil {
		select {
		case err := <-ended:
			return fmt.Errorf("the daemon did not start (%v); its log is %s", err, name)
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not answer: %w; its log is %s", context.Cause(ctx), name)
		case <-time.After(10 * time.Millisecond):
		}
	}
	say(fmt.Sprintf("started a daemon for %s: process %d, log %s; it stays, kill %[2]d ends it",
		dir, cmd.Process.Pid, name))
	return nil
}

// programFor returns the program of a daemon for dir: beside this one, or on PATH.
func programFor(dir string) (string, error) {
	self, _ := os.Executable() // without it, PATH is left
	path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "sandboxd"))
	if err != nil {
		path, err = exec.LookPath("sandboxd")
	}
	if err == nil && strings.ContainsRune(dir, filepath.ListSeparator) {
		err = fmt.Errorf("%q holds a colon, which the daemon takes for two directories", dir)
	}
	if err != nil {
		return "", fmt.Errorf("no daemon answers, and none can be started: %w", err)
	}
	return path, nil
}

// Choice is which session an agent works in. The zero value is a new one.
type Choice struct {
	Dir      string `json:"cwd,omitempty"` // without links; "" is the daemon's default
	Mode     string `json:"mode,omitempty"`
	Resume   string `json:"resume,omitempty"`    // the id of a session
	Continue bool   `json:"-"`                   // the conversation of this directory that changed last
	Fork     bool   `json:"fork,omitempty"`      // a copy of the session, not itself
	ResumeAt string `json:"resume_at,omitempty"` // without what was said behind this message
}

// Open opens the session.
func Open(ctx context.Context, c *client.Client, o Choice) (s loop.Session, err error) {
	if o.Continue {
		if o.Resume, err = latest(ctx, c, o.Dir); err != nil {
			return s, err
		}
	}
	if o.Resume != "" {
		o.Dir = "" // the session has its own
	}
	err = c.Do(ctx, http.MethodPost, "/sessions", o, &s)
	return s, err
}

// latest returns the session of this directory in which something was said last. The daemon's own continue_recent
// would take sessions of other directories, and of the command line, too.
func latest(ctx context.Context, c *client.Client, dir string) (string, error) {
	var list []struct {
		loop.Session
		Parent string `json:"parent"`
	}
	err := c.Do(ctx, http.MethodGet, "/sessions?sort_by=updated_at&sort_order=desc&limit=100", nil, &list)
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if s.Dir == dir && s.Messages > 0 && s.Parent == "" {
			return s.ID, nil
		}
	}
	return "", fmt.Errorf("nothing was said in %s lately: there is no session to go on with", dir)
}
