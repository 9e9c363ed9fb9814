package upstream

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/sandbox"
)

// A server that floods its output must not keep a processor busy.
func TestAServerPrintsSoMuchInASecond(t *testing.T) {
	zeros, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zeros.Close()
	synctest.Test(t, func(t *testing.T) {
		p := &paced{File: zeros}
		part := make([]byte, 1<<20)
		began := time.Now()
		for range 64 {
			if _, err := p.Read(part); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("64 MiB take %v", waited)
		}
		if _, err := p.Read(part); err != nil || time.Since(began) != time.Second {
			t.Errorf("one more is read after %v, %v", time.Since(began), err)
		}
	})
}

// stays is a program that ends by a signal alone.
type stays struct {
	sandbox.Proc
	exited chan struct{}
	grace  time.Duration
}

func (s *stays) Terminate(grace time.Duration) {
	s.grace = grace
	close(s.exited)
}

func TestM29_AServerHasTwoSecondsToEnd(t *testing.T) {
	for _, ends := range []bool{true, false} { // at the end of its input
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		synctest.Test(t, func(t *testing.T) {
			s := &stays{exited: make(chan struct{})}
			p := &Process{proc: s, stdin: w, exited: s.exited}
			if ends {
				close(s.exited)
			}
			began := time.Now()
			p.end()
			if _, err := r.Read(make([]byte, 1)); err == nil {
				t.Error("its input goes on")
			}
			want := 2 * time.Second
			if ends {
				want = 0
			}
			if waited := time.Since(began); waited != want || (s.grace > 0) == ends {
				t.Errorf("it ends with its input: %v; SIGTERM came after %v, with %v to obey it", ends, waited, s.grace)
			}
		})
	}
}

// What a pin covers comes from the list as the server says it.
func TestM15_ADefinitionHasAllThatAToolSaysOfItself(t *testing.T) {
	got, err := definition(&mcp.Tool{
		Name: "n", Title: "t", Description: "d", InputSchema: map[string]any{"a": 1},
		OutputSchema: map[string]any{"b": 2}, Annotations: &mcp.ToolAnnotations{Title: "c"},
		Icons: []mcp.Icon{{Source: "i"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{
		got.Name, got.Title, got.Description, string(got.InputSchema), string(got.OutputSchema), string(got.Icons),
	}
	want := []string{"n", "t", "d", `{"a":1}`, `{"b":2}`, `[{"src":"i"}]`}
	if !slices.Equal(parts, want) || !strings.Contains(string(got.Annotations), `"title":"c"`) {
		t.Errorf("got %q and %s, want %q", parts, got.Annotations, want)
	}
	if got, err := definition(&mcp.Tool{Name: "n"}); err != nil || got.OutputSchema != nil || got.Icons != nil {
		t.Errorf("of a tool that says little: %+v, %v", got, err)
	}
}
