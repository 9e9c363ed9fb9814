package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/jsonout"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// dial connects to the socket of a role and sends text.
func (w *world) dial(role tool.Role, text string) net.Conn {
	w.t.Helper()
	c, err := net.Dial("unix", w.paths[role])
	must(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	must(w.t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, text)
	must(w.t, err)
	return c
}

// until waits for what another goroutine of the server does: there is nothing to wait on.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s; in use: %+v", what, w.front.Use())
		}
	}
}

// large puts a variable of so many bytes into a session, over the operator socket, where
// nothing is taken from the budget.
func (w *world) large(session string, bytes int) {
	w.t.Helper()
	for i := 0; i < bytes; i += 4 << 20 {
		body := `{"value":"` + strings.Repeat("x", min(bytes, 4<<20)) + `"}`
		if a := w.do(tool.RoleOperator, "PUT", "/sessions/"+session+"/vars/large", body); a.status >= 300 {
			w.t.Fatalf("%d %s", a.status, a.body)
		}
	}
}

// A reader that takes nothing loses the connection, and what it held is free again.
func TestASlowReaderLosesTheConnection(t *testing.T) {
	// A busy machine may keep even a writer whose reader does not sleep for some of it.
	w := newWorld(t, func(o *Options) { o.testOnlyTake = 2 * time.Second })
	id := w.session(tool.RoleAgent)
	w.large(id, 4<<20)
	c := w.dial(tool.RoleAgent, "GET /sessions/"+id+"/vars/large HTTP/1.1\r\nHost: x\r\n\r\n")
	begin := make([]byte, len("HTTP/1.1 200 OK")) // it tells that the answer is begun, and makes no room for the rest
	_, err := io.ReadFull(c, begin)
	must(t, err)
	w.until("the reader is cut off", func() bool { return w.front.Use() == budget.Use{Refused: w.front.Use().Refused} })
	text, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(begin), " 200 ") || len(text) > 2<<20 ||
		bytes.HasSuffix(text, []byte("0\r\n\r\n")) {
		t.Errorf("it got %d bytes, %v, that end with %q: want a part", len(begin)+len(text), err, text[max(0, len(text)-20):])
	}
}

// A reader that is slow, but takes each piece in time, gets all of it.
func TestAReaderThatTakesItsTimeGetsTheAnswer(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.testOnlyTake = 10 * time.Second })
	id := w.session(tool.RoleAgent)
	w.large(id, 4<<20)
	c := w.dial(tool.RoleAgent, "GET /sessions/"+id+"/vars/large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	got, buf := 0, make([]byte, 256<<10)
	for {
		n, err := c.Read(buf)
		got += n
		if err == io.EOF {
			break
		}
		must(t, err)
		time.Sleep(5 * time.Millisecond)
	}
	if got < 4<<20 {
		t.Errorf("got %d bytes", got)
	}
}

// Agents have a quarter of the open files for connections, one account half of these. Those without a request are
// closed for new ones, and operators have none of these limits.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.testOnlyOpenFiles = 64 })
	var idle []net.Conn
	for range 30 {
		idle = append(idle, w.dial(tool.RoleAgent, ""))
	}
	if a := w.do(tool.RoleAgent, "GET", "/healthz", ""); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if n := w.front.Use().Connections; n > 8 {
		t.Fatalf("an account has %d connections, of 64 open files", n)
	}
	if _, err := idle[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest connection is not closed: %v", err)
	}
	for range 30 {
		c := w.dial(tool.RoleOperator, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, " 200 ") {
			t.Fatalf("an operator got %q, %v", line, err)
		}
	}
}

// Where every connection of an account is busy, one more is told so, and not taken for work.
func TestABusyAccountIsTold(t *testing.T) {
	w := newWorld(t)
	w.front.budget.Limit(budget.Limits{Connections: 4})
	id := w.session(tool.RoleAgent)
	calls := posted("/sessions/"+id+"/calls", `{"tool":"Wait"}`)
	for range 2 {
		w.dial(tool.RoleAgent, calls)
	}
	w.running(2)
	a := w.do(tool.RoleAgent, "GET", "/healthz", "")
	if a.status != http.StatusServiceUnavailable || a.Error.Code != "too_many_connections" || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s %v", a.status, a.body, a.header)
	}
	close(w.hold)
	w.until("the calls have ended", func() bool { return w.front.Use().Requests == 0 })
}

func posted(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// Whoever sends a whole body before it reads is told why the body was refused; what comes
// after it is not taken for another request.
func TestARefusalIsHeardByWhoeverSendsFirst(t *testing.T) {
	w := newWorld(t)
	w.front.budget.Limit(budget.Limits{Bytes: 64 << 20})
	hold, err := w.front.budget.Request(tool.DefaultAccount)
	must(t, err)
	defer hold.Release()
	must(t, hold.Take(28<<20))
	c := w.dial(tool.RoleAgent, posted("/sessions", strings.Repeat(" ", 7<<20)+"{}")+"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	text, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, unix.ECONNRESET) { // the second request is never read
		t.Error(err)
	}
	answers := bytes.Count(text, []byte("HTTP/1.1 "))
	if answers != 1 || !bytes.Contains(text, []byte(" 429 ")) || !bytes.Contains(text, []byte(`"account_busy"`)) ||
		!bytes.Contains(text, []byte("Retry-After: 1")) {
		t.Errorf("got %d answers: %s", answers, text)
	}
}

// Before half of a body is there, nothing more than that is taken; afterwards nothing is left.
func TestABodyIsTakenBeforeItIsRead(t *testing.T) {
	w := newWorld(t)
	w.front.budget.Limit(budget.Limits{Bytes: 64 << 20})
	c := w.dial(tool.RoleAgent, "POST /sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n{")
	w.until("the body is reserved", func() bool { return w.front.Use().Bytes > 5_000_000 })
	if n := w.front.Use().Bytes; n > 6_000_000 {
		t.Errorf("%d bytes are taken", n)
	}
	c.Close()
	w.until("nothing is left", func() bool { return w.front.Use().Bytes == 0 && w.front.Use().Requests == 0 })
	if a := w.do(tool.RoleAgent, "POST", "/sessions", `{"metadata":[`+strings.Repeat("1,", 200_000)+`1]}`); a.status != 413 {
		t.Errorf("200,000 values: got %d %.200s", a.status, a.body)
	}
}

// The results of a batch are sent as they come; a client that goes leaves nothing running.
func TestABatchIsAnsweredCallByCall(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	c := w.dial(tool.RoleAgent, posted("/sessions/"+id+"/calls", `{"calls":[{"tool":"Echo","args":{"a":1}},{"tool":"Wait"}]}`))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	got := make([]byte, 4096)
	n, err := res.Body.Read(got)
	for err == nil && !strings.Contains(string(got[:n]), `"final_text"`) {
		var m int
		m, err = res.Body.Read(got[n:])
		n += m
	}
	if err != nil || !strings.HasPrefix(string(got[:n]), `{"data":[{"call_id":`) {
		t.Fatalf("got %s, %v", got[:n], err)
	}
	w.running(1)
	c.Close()
	w.running(0)
	w.until("nothing is held", func() bool { return w.front.Use().Bytes == 0 })
}

// What is wrong with a row is never the end of a list that looks whole.
func TestAnAnswerThatCannotBeFinishedIsCutOff(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	w.large(id, 6<<20)
	c := w.dial(tool.RoleAgent, "GET /sessions/"+id+"/vars/large HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(c)
	_, err := r.ReadString('\n')
	must(t, err)
	w.large(id, 5<<20) // while it is read
	text, err := io.ReadAll(r)
	if err != nil || bytes.HasSuffix(text, []byte("\r\n0\r\n\r\n")) {
		t.Errorf("got an answer of %d bytes with an end, %v", len(text), err)
	}
	if a := w.do(tool.RoleAgent, "GET", "/sessions?limit=1&offset=0", ""); a.status != http.StatusOK || !strings.Contains(string(a.body), `"total":1`) {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

// With no descriptor left, an operator is let in.
func TestOperatorsHaveSpareDescriptors(t *testing.T) {
	w := newWorld(t)
	w.do(tool.RoleOperator, "GET", "/healthz", "")
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	dials := make([]net.Conn, 3) // the other end is in this process too
	for i := range dials {
		dials[i] = w.dial(tool.RoleAgent, "")
	}
	w.until("they are let in", func() bool { return w.front.Use().Connections == len(dials) })
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var last int
	for _, n := range names {
		var fd int
		_, _ = fmt.Sscan(n.Name(), &fd)
		last = max(last, fd)
	}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(last + 20), Max: old.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }()
	var filled []*os.File
	defer func() {
		for _, f := range filled {
			f.Close()
		}
	}()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		filled = append(filled, f)
	}
	filled[0].Close() // for the end of the client
	c := w.dial(tool.RoleOperator, "GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, " 200 ") {
		t.Errorf("an operator got %q, %v", line, err)
	}
}

// Every type that routes answer with can be written in pieces.
func TestEveryAnswerCanBeWrittenInPieces(t *testing.T) {
	w := newWorld(t)
	n := 0
	for _, rt := range New(w.opts).routes() {
		outs, ok := rt.Spec.Out.(route.OneOf)
		if !ok {
			outs = route.OneOf{rt.Spec.Out}
		}
		for _, out := range outs {
			if out == nil {
				continue
			}
			v := reflect.New(reflect.TypeOf(out)).Elem()
			filled(v, 0)
			var want, got bytes.Buffer
			plain := json.NewEncoder(&want)
			plain.SetEscapeHTML(false)
			must(t, plain.Encode(v.Interface()))
			if err := jsonout.Write(&got, v.Interface()); err != nil || got.String()+"\n" != want.String() {
				t.Errorf("%s: got %s, %v\nwant %s", rt.Pattern, &got, err, &want)
			}
			n++
		}
	}
	if n < 20 {
		t.Errorf("%d types", n)
	}
}

// filled puts something into each field.
func filled(v reflect.Value, depth int) {
	if depth > 8 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"x":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		filled(key, depth+1)
		filled(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), depth+1)
		}
	case reflect.String:
		v.SetString("<x>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(map[string]any{"b": []int{1}, "a": nil}))
		}
	}
}
