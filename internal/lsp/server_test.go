package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// The server of the tests is this program: how it behaves, and what it answers.
const (
	behaviour = "LSP_TEST_SERVER"
	answers   = "LSP_TEST_ANSWER"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		serve(how, os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// serve is a language server that behaves well, with one exception.
func serve(how string, in io.Reader, out io.Writer) {
	say := func(text string) { _, _ = io.WriteString(out, text) }
	send := func(text string) { say(string(frame([]byte(text)))) }
	if how == "dies at once" {
		fmt.Fprintln(os.Stderr, "no such option")
		os.Exit(3)
	}
	var heard []string
	for r := bufio.NewReaderSize(in, maxHeader); ; {
		body, err := readFrame(r)
		if err != nil {
			os.Exit(0)
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			panic(err)
		}
		id := string(m.ID)
		switch {
		case m.Method == "initialize" && how == "never begins":
		case m.Method == "initialize":
			send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"capabilities":{}}}`)
		case m.Method == "exit":
			os.Exit(0)
		case m.Method == "shutdown" && how != "does not end":
			send(`{"jsonrpc":"2.0","id":` + id + `,"result":null}`)
		case m.Method == "" || id == "":
			heard = append(heard, string(body))
		case strings.HasPrefix(m.Method, "textDocument/") || strings.HasPrefix(m.Method, "workspace/"):
			behave(how, id, heard, body, say, send)
		}
	}
}

// behave answers a question.
func behave(how, id string, heard []string, question []byte, say, send func(string)) {
	good := `{"jsonrpc":"2.0","id":` + id + `,"result":` + os.Getenv(answers) + `}`
	switch how {
	case "answers", "does not end":
		send(good)
	case "tells what it heard":
		text, err := json.Marshal(strings.Join(append(heard, string(question)), "\n"))
		if err != nil {
			panic(err)
		}
		send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"contents":` + string(text) + `}}`)
	case "talks meanwhile":
		send(`{"jsonrpc":"2.0","method":"window/logMessage","params":{"message":"x"}}`)
		send(`{"jsonrpc":"2.0","id":1,"result":[]}`) // again to what was answered
		send(good)
		send(good)
	case "says nothing":
	case "ends in a message":
		say("Content-Length: 100\r\n\r\n{\"jsonrpc\":")
		os.Exit(0)
	case "dies":
		fmt.Fprintln(os.Stderr, "boom")
		os.Exit(3)
	case "announces 17 MB":
		say("Content-Length: 17825792\r\n\r\n")
	case "sends 17 MB":
		say("Content-Length: 17825792\r\n\r\n" + strings.Repeat(" ", 17<<20))
	case "counts too few":
		say("Content-Length: 10\r\n\r\n" + good)
	case "counts too many":
		say("Content-Length: " + fmt.Sprint(len(good)+30) + "\r\n\r\n" + good + "Content-Length: 2\r\n\r\n{}" + strings.Repeat(" ", 40))
	case "counts below zero":
		say("Content-Length: -1\r\n\r\n" + good)
	case "counts twice":
		say("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}")
	case "does not count":
		say("Content-Type: x\r\n\r\n" + good)
	case "prints text":
		say("hello\r\n" + string(frame([]byte(good))))
	case "has a long header":
		say("X: " + strings.Repeat("x", 64<<10))
	case "has many headers":
		say(strings.Repeat("X: x\r\n", 10_000))
	case "answers another id":
		send(`{"jsonrpc":"2.0","id":999,"result":null}`)
	case "answers an id that is text":
		send(`{"jsonrpc":"2.0","id":"` + id + `","result":null}`)
	case "nests deep":
		send(`{"jsonrpc":"2.0","id":` + id + `,"result":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`)
	case "sends what is no JSON":
		send(`{"jsonrpc":"2.0","id":` + id)
	case "sends what is no UTF-8":
		send("{\"jsonrpc\":\"2.0\",\"id\":" + id + ",\"result\":\"\xff\"}")
	case "says fields twice":
		send(`{"jsonrpc":"2.0","id":` + id + `,"result":null,"result":[]}`)
	case "sends a list":
		send(`[{"jsonrpc":"2.0","id":` + id + `,"result":null}]`)
	case "has many values":
		send(`{"jsonrpc":"2.0","id":` + id + `,"result":[` + strings.Repeat("0,", maxValues) + `0]}`)
	case "refuses":
		send(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"column is beyond end of line TOKEN"}}`)
	case "asks for much":
		send(`{"jsonrpc":"2.0","id":7,"method":"workspace/configuration","params":{"items":[` +
			strings.Repeat("{},", maxItems) + `{}]}}`)
	case "asks with a long id":
		send(`{"jsonrpc":"2.0","id":"` + strings.Repeat("7", 99) + `","method":"workspace/configuration","params":{}}`)
		send(good)
	case "asks without end":
		for {
			send(`{"jsonrpc":"2.0","id":7,"method":"workspace/applyEdit","params":{}}`)
		}
	case "stays":
		unix.Pause()
	default:
		panic(how)
	}
}

// hostProc is a program on the host.
type hostProc struct{ cmd *exec.Cmd }

// Start implements [sandbox.Box].
func (b *hostBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.Argv[0], s.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Dir, append(os.Environ(), s.Env...), s.Stdin, s.Stdout, s.Stderr
	b.mu.Lock()
	b.started++
	b.mu.Unlock()
	return hostProc{cmd}, cmd.Start()
}

func (p hostProc) Wait() (sandbox.Exit, error) {
	err := p.cmd.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return sandbox.Exit{}, err
	}
	return sandbox.Exit{Code: p.cmd.ProcessState.ExitCode()}, nil
}

func (p hostProc) Terminate(time.Duration)                           { _ = p.cmd.Process.Kill() }
func (hostProc) Dial(context.Context, uint16) (net.Conn, error)      { return nil, net.ErrClosed }
func (hostProc) Apart() bool                                         { return false }
func (hostProc) Sweep() []sandbox.Denial                             { return nil }
func (b *hostBox) As(sandbox.User) sandbox.Box                       { return b }
func (*hostBox) Close() error                                        { return nil }
func (w *world) Forget(string, tool.Companion) error                 { w.forgot.Add(1); return nil }
func (w *world) All(context.Context, string) ([]tool.Session, error) { return nil, nil }

func (w *world) Settings(_ tool.Session, c tool.Companion) (guard.Settings, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.Settings(w.settings), nil
}

func (w *world) Box(_ context.Context, s tool.Session, c tool.Companion) (sandbox.Box, guard.Settings, error) {
	settings, err := w.Settings(s, c)
	return w.box, settings, err
}

// Session implements [part.Sessions]. Session gone is none any more.
func (w *world) Session(_ context.Context, account, id string) (tool.Session, error) {
	if id == "gone" {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: "no such session"}
	}
	return tool.Session{ID: id, Account: account, Dir: w.dir}, nil
}

func (w *world) Patch(context.Context, string, string, func(*tool.Session) error) (tool.Session, error) {
	return tool.Session{}, nil
}

// served is a world with a server for files of Go that behaves in this way.
func served(t *testing.T, how, answer string) *world {
	t.Helper()
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.write("a.go", goFile)
	c := Defaults()
	c.Servers = map[string]Server{"go": {
		Command: self, Extensions: []string{".go"},
		Env: map[string]string{behaviour: how, answers: strings.ReplaceAll(answer, "DIR", "file://"+w.dir)},
	}}
	w.f = newFeature(part.Host{
		Sessions: w, Companions: w, Log: slog.New(slog.DiscardHandler), Redact: func(s string) string { return strings.ReplaceAll(s, "TOKEN", "***") },
	}, c)
	w.part = w.f.part()
	w.tool = w.part.Groups[0].Tools[0]
	t.Cleanup(func() {
		if err := w.part.Close(); err != nil {
			t.Error(err)
		}
		if n := w.f.running(); n != 0 {
			t.Errorf("%d servers run after the end", n)
		}
	})
	return w
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not become true", what)
		}
	}
}
