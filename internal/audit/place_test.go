package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// place is a state directory, a key beside it and a database.
type place struct {
	Options
	mirror Mirror
}

func newPlace(t testing.TB) place {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return place{Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "audit.key")}, NewMirror(db)}
}

func (p place) open(t testing.TB) *Log {
	t.Helper()
	l, err := Open(t.Context(), p.Options, p.mirror)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (p place) verify(t testing.TB) Report {
	t.Helper()
	rep, err := Verify(t.Context(), p.Options, p.mirror)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func (p place) entries(t testing.TB) []Entry {
	t.Helper()
	var all []Entry
	err := Tail(t.Context(), p.Path(), 1<<30, false, func(line []byte) error {
		e, err := decode(line)
		all = append(all, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sampleCall() *tool.Call {
	c := tool.NewCall(tool.Request{
		Account: "default-admin", Role: tool.RoleAgent, Session: "s1", Tool: "Bash", ToolUseID: "toolu_1",
		Args: json.RawMessage(`{"command":"cat top-secret-plan.txt"}`),
	})
	c.Spec = tool.Spec{Name: "Bash", Class: tool.ClassExec}
	c.Session = tool.Session{ID: "s1", Mode: "auto", Profile: "strict"}
	c.Decision = tool.Decision{
		Verdict: tool.Allow, By: tool.ByMode, Revision: "r1",
		Reasons: []tool.Reason{{Rule: "mode:auto", Message: "top-secret-plan.txt"}},
	}
	c.Approval = &tool.Approval{ID: "ap1", Approved: true, By: "uid:1000", Remember: "once"}
	c.Report = sandbox.Report{Layers: []string{"userns", "landlock:7"}, Missing: []string{"cgroup2"}}
	c.Result.Status = tool.StatusSuccess
	c.Result.FinalText = "top-secret-plan.txt says hi"
	c.Result.Usage = &tool.Usage{WallMS: 3}
	return c
}

// fill writes n events and closes, so that all of them are mirrored.
func (p place) fill(t testing.TB, n int) {
	t.Helper()
	l := p.open(t)
	for i := range n {
		if err := l.Append(t.Context(), tool.Note{Name: "operator", Message: fmt.Sprintf("event %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// crash writes n events and ends as with kill -9, when all of them are known beside the key.
func (p place) crash(t testing.TB, n int) {
	t.Helper()
	p.KeepEvery = time.Nanosecond
	l := p.open(t)
	for i := range n {
		if err := l.Append(t.Context(), tool.Note{Name: "operator", Message: fmt.Sprintf("event %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); l.Status().Kept < l.Status().Line; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the head beside the key is not written")
		}
	}
	l.kill(t)
}

// kill ends a log as the end of its process would.
func (l *Log) kill(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.stop)
	<-l.done
	if err := l.closeFiles(); err != nil {
		t.Fatal(err)
	}
}

func (p place) lines(t testing.TB) [][]byte {
	t.Helper()
	text, err := os.ReadFile(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return lines[:len(lines)-1]
}

func (p place) rewrite(t testing.TB, lines [][]byte) {
	t.Helper()
	if err := os.WriteFile(p.Path(), bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rechain makes the chain of lines consistent again, as an attacker would who
// knows the format but has neither key nor database.
func rechain(t testing.TB, lines [][]byte) [][]byte {
	t.Helper()
	prev := ""
	out := make([][]byte, len(lines))
	for i, line := range lines {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		e.Seq, e.Prev = uint64(i+1), prev
		encoded, hash, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		out[i], prev = encoded, hash
	}
	return out
}
