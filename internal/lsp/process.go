package lsp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// How long a server may take to end: after the request to exit, and after SIGTERM.
const (
	shutTime = 2 * time.Second
	termTime = 2 * time.Second
)

// start starts a program with the given standard streams. The pipes belong to the caller.
type start func(stdin *os.File, stdout, stderr io.Writer) (sandbox.Proc, error)

// process is a running server.
type process struct {
	*conn
	proc   sandbox.Proc
	stderr tail
	exited chan struct{}
	out    *os.File
	exit   sandbox.Exit // valid when exited is closed
	broken error        // valid when exited is closed
}

// begin starts a server and initialises it, until ctx ends.
func begin(ctx context.Context, dir string, run start) (*process, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	p := &process{exited: make(chan struct{}), out: outR}
	p.proc, err = run(inR, outW, &p.stderr)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	go func() {
		p.exit, p.broken = p.proc.Wait()
		close(p.exited)
	}()
	p.conn = newConn(inW, outR)
	root := uriOf(dir)
	_, err = p.call(ctx, "initialize", map[string]any{
		"processId": nil, "rootUri": root, "rootPath": dir,
		"workspaceFolders": []map[string]string{{"uri": root, "name": "workspace"}},
		"capabilities": map[string]any{
			"general": map[string]any{"positionEncodings": []string{"utf-16"}},
			"workspace": map[string]any{
				"configuration": true, "workspaceFolders": true,
				"didChangeWatchedFiles": map[string]bool{"dynamicRegistration": true},
			},
			"textDocument": map[string]any{
				"hover":          map[string]any{"contentFormat": []string{"markdown", "plaintext"}},
				"documentSymbol": map[string]any{"hierarchicalDocumentSymbolSupport": true},
			},
		},
	})
	if err == nil {
		err = p.notify("initialized", struct{}{})
	}
	if err != nil {
		err = p.explain(err)
		p.end()
		return nil, err
	}
	return p, nil
}

// usable reports whether the server can be asked.
func (p *process) usable() bool {
	select {
	case <-p.ended:
		return false
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end ends the server: with a request to exit, then SIGTERM, then the end of its namespace.
func (p *process) end() {
	if p.usable() {
		ctx, cancel := context.WithTimeout(context.Background(), shutTime)
		if _, err := p.call(ctx, "shutdown", nil); err == nil {
			_ = p.notify("exit", nil) // it is ended in any case
		}
		cancel()
		select {
		case <-p.exited:
		case <-p.ended:
		case <-time.After(shutTime):
		}
	}
	p.fail(errors.New("it was ended"))
	p.proc.Terminate(termTime)
	<-p.exited
	p.out.Close()
}

// explain adds to an error how the server ended and the last line of its standard error.
func (p *process) explain(err error) error {
	text := err.Error()
	patience := time.After(0)
	if !p.usable() { // the end becomes known shortly after the end of the output
		patience = time.After(shutTime)
	}
	select {
	case <-p.exited:
		if p.broken != nil {
			return p.broken
		}
		text += fmt.Sprintf("; it ended with status %d", p.exit.Code)
		if p.exit.Limit != "" {
			text += ", because of its limit " + p.exit.Limit
		}
	case <-patience:
	}
	if last := p.stderr.last(); last != "" {
		text += fmt.Sprintf("; it said last: %.300q", last)
	}
	return errors.New(text)
}

// tailBytes bounds what is kept of a server's standard error. errRate bounds the bytes that are read per second.
const (
	tailBytes = 4 << 10
	errRate   = 1 << 20
)

// tail keeps the last bytes that were written to it.
type tail struct {
	mu    sync.Mutex // guards what follows
	kept  []byte
	since time.Time
	bytes int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, p[max(0, len(p)-tailBytes):]...)
	if n := len(t.kept) - tailBytes; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	now := time.Now()
	if now.Sub(t.since) >= time.Second {
		t.since, t.bytes = now, 0
	}
	t.bytes += len(p)
	wait := time.Duration(0)
	if t.bytes > errRate {
		wait = time.Second - now.Sub(t.since)
	}
	t.mu.Unlock()
	time.Sleep(wait)
	return len(p), nil
}

// last returns the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
