package frame

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

func TestALineThatIsNoMessageFailsAlone(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct {
		name, line      string
		read, written   string // beside ok, in pieces of the lines
		dropped, failed int64
	}{
		{"a banner", "Listening on stdio", "", "", 1, 0},
		{"an empty line", "", "", "", 0, 0},
		{"blanks", " \t\r", "", "", 0, 0},
		{"an array is a batch, which is deprecated", "[" + ok + "]", "", "", 1, 0},
		{"a number", "17", "", "", 1, 0},
		{"half an object", `{"jsonrpc":"2.0",`, "", "", 1, 0},
		{"two objects", `{} {}`, "", "", 1, 0},
		{"an object and a word", `{"jsonrpc":"2.0","id":1,"method":"ping"} done`, "", "", 1, 0},
		{"what is no JSON within braces", `{"id":1,"method":"x",,}`, "", "", 1, 0},
		{"CRLF", ok + "\r", ok, "", 0, 0},
		{"blanks around", "  " + ok + "  ", ok, "", 0, 0},
		{"an object that is no message", `{}`, "", "", 0, 1},
		{"another version", `{"jsonrpc":"1.0","id":4,"method":"x"}`, "", `"id":4,"error":{"code":-32600`, 0, 1},
		{"an id that is none", `{"jsonrpc":"2.0","id":{},"method":"x"}`, "", "", 0, 1},
		{"a method that is none", `{"jsonrpc":"2.0","id":3,"method":{}}`, "", `"id":3,"error"`, 0, 1},
		{"as long as may be", long(200, `"id":2,"method":"x"`), `"id":2`, "", 0, 0},
		{"as long as may be, behind blanks", "   " + long(200, `"id":2,"method":"x"`), `"id":2`, "", 0, 0},
		{"as long as may be, behind many blanks", strings.Repeat(" ", 1<<17) + long(200, `"id":2,"method":"x"`), `"id":2`, "", 0, 0},
		{"a long request", long(201, `"id":2,"method":"x"`), "", `"id":2,"error":{"code":-32600,"message":"the message has more than 200`, 0, 1},
		{"a long request, its id last", `{"x":"` + strings.Repeat("é", 1<<17) + `","method":"m","id":"a\"b"}`, "", `"id":"a\"b","error"`, 0, 1},
		{"a long answer", long(300, `"id":"r1","result":{"id":5}`), `"id":"r1","error"`, "", 0, 1},
		{"a long notification", long(300, `"method":"x"`), "", "", 0, 1},
		{"a long banner", strings.Repeat("=", 1<<18), "", "", 1, 0},
		{"a deep request", `{"jsonrpc":"2.0","id":9,"method":"x","params":` + deep(50) + `}`, "", `"id":9,"error":{"code":-32600,"message":"the message nests`, 0, 1},
		{"brackets within a string are not deep", `{"jsonrpc":"2.0","id":9,"method":"x","params":["` + strings.Repeat("[", 90) + `"]}`, `"id":9`, "", 0, 0},
		{"many values", `{"jsonrpc":"2.0","id":9,"method":"x","params":[` + strings.Repeat("1,", 70) + `1]}`, "", `"id":9,"error":{"code":-32600,"message":"the message has more than 70 values`, 0, 1},
		{"commas within a string are no values", `{"jsonrpc":"2.0","id":9,"method":"x","params":["` + strings.Repeat(",", 90) + `"]}`, `"id":9`, "", 0, 0},
		{"an id deeper down is none of the message", long(300, `"params":{"id":6,"method":"y"}`), "", "", 0, 1},
		{"a key that is escaped", long(300, `"\u0069d":8,"\u006dethod":"x"`), "", `"id":8,"error"`, 0, 1},
		{"the last id counts, as for the SDK", long(300, `"id":1,"id":2,"method":"x"`), "", `"id":2,"error"`, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out buffer
			in := tt.line + "\n" + ok + "\n"
			c := New(io.NopCloser(strings.NewReader(in)), &out, Limits{Line: 200, Depth: 50, Values: 70})
			read, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			rest, found := strings.CutSuffix(string(read), ok+"\n")
			if !found {
				t.Fatalf("read %q: the next line is missing", read)
			}
			if !strings.Contains(rest, tt.read) || tt.read == "" && rest != "" {
				t.Errorf("read %q, want %q", rest, tt.read)
			}
			if !strings.Contains(out.String(), tt.written) || tt.written == "" && out.Len() > 0 {
				t.Errorf("answered %q, want %q", out.String(), tt.written)
			}
			if c.Dropped() != tt.dropped || c.Failed() != tt.failed {
				t.Errorf("%d dropped, %d failed; want %d, %d", c.Dropped(), c.Failed(), tt.dropped, tt.failed)
			}
		})
	}
}

// long is a message of n bytes with these members.
func long(n int, members string) string {
	head := `{"jsonrpc":"2.0",` + members + `,"pad":"`
	return head + strings.Repeat("x", n-len(head)-len(`"}`)) + `"}`
}

// Small values take thirty times their bytes once decoded, so they are counted beside the bytes.
func TestHowMuchALineHasWithoutOtherLimits(t *testing.T) {
	values := func(n int) string { return `"params":[` + strings.Repeat("1,", n-1) + `1]` }
	deep := func(n int) string { return `"params":` + strings.Repeat("[", n) + strings.Repeat("]", n) }
	message := func(members string) string { return `{"jsonrpc":"2.0","id":9,"method":"x",` + members + `}` }
	for _, tt := range []struct{ name, line, refused string }{
		{"nearly 200,000 values", message(values(199_900)), ""},
		{"more", message(values(200_100)), "the message has more than 200000 values"},
		{"999 deep", message(deep(999)), ""},
		{"1,001 deep", message(deep(1001)), "the message nests"},
		{"nearly 16 MiB", long(16<<20-1, `"id":9,"method":"x"`), ""},
		{"more than 16 MiB", long(16<<20+1, `"id":9,"method":"x"`), "the message has more than"},
	} {
		var out buffer
		read, err := io.ReadAll(New(io.NopCloser(strings.NewReader(tt.line+"\n")), &out, Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		if (len(read) > 0) != (tt.refused == "") || !strings.Contains(out.String(), tt.refused) {
			t.Errorf("%s: %d bytes are read, the answer is %.200q", tt.name, len(read), out.String())
		}
	}
}

func TestTheLastLineNeedsNoEnd(t *testing.T) {
	c := New(io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","method":"x"}`)), &buffer{}, Limits{})
	if read, err := io.ReadAll(c); err != nil || string(read) != `{"jsonrpc":"2.0","method":"x"}`+"\n" {
		t.Errorf("read %q, %v", read, err)
	}
}

// No more of a line is held than it may have.
func TestALineWithoutEndIsNotHeld(t *testing.T) {
	const much = 64 << 20
	c := New(io.NopCloser(io.LimitReader(zeros{}, much)), &buffer{}, Limits{Line: 1 << 10})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	bytes := after.TotalAlloc - before.TotalAlloc
	if bytes > much/8 {
		t.Errorf("%d bytes were allocated for a line of %d", bytes, much)
	}
	if c.Dropped() != 1 {
		t.Errorf("%d dropped, want 1", c.Dropped())
	}
}

// Who asks and does not read the answers is not read, until it does; what is asked of it is no answer.
func TestRequestsWaitForTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", 2) + `{"jsonrpc":"2.0","method":"m"}` + "\n" +
			strings.Repeat(`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n", 9)
		c := New(io.NopCloser(strings.NewReader(in)), &buffer{}, Limits{Requests: 2})
		var passed atomic.Int64
		ended := make(chan error)
		go func() {
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				passed.Add(1)
			}
			ended <- lines.Err()
		}()
		for _, tt := range []struct {
			written string
			want    int64
		}{
			{"", 3},
			{`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, 3},
			{`{"jsonrpc":"2.0","id":1,"result":{}}`, 4},
			{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\"method\":"}}`, 5},
		} {
			if tt.written != "" {
				if _, err := io.WriteString(c.Writer(), tt.written+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if synctest.Wait(); passed.Load() != tt.want {
				t.Errorf("%d lines have passed, want %d", passed.Load(), tt.want)
			}
		}
		c.Close()
		if err := <-ended; err == nil {
			t.Error("reading goes on after Close")
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// FuzzRead holds what passes against the SDK: every line is a message for it, and what it reads as one passes.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"a","result":{}}`, "banner", `{"a":"\"}{"}`,
		`{"id":1,"id":2}`, `{"jsonrpc":"2.0","id":1e999,"method":"x"}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", `[{}]`, "{}\n{}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out buffer
		c := New(io.NopCloser(bytes.NewReader(in)), &out, Limits{Line: 300, Depth: 8})
		read, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		whole := append(slicesOf(read), slicesOf(out.Bytes())...)
		for _, line := range whole {
			if !json.Valid(line) {
				t.Fatalf("no JSON: %q", line)
			}
			if _, err := jsonrpc.DecodeMessage(line); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		transport := &mcp.IOTransport{Reader: io.NopCloser(bytes.NewReader(read)), Writer: &out}
		conn, err := transport.Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range slicesOf(read) {
			if _, err := conn.Read(context.Background()); err != nil {
				t.Fatalf("the SDK closes the connection at %q: %v", read, err)
			}
		}
	})
}

func slicesOf(b []byte) [][]byte {
	lines := bytes.Split(b, []byte("\n"))
	return lines[:len(lines)-1]
}
