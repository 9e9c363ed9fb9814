package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// The uids of the accounts. Nobody names 2003 and 2004.
const accountsConfig = "accounts: {2001: alice, 2002: bob}\n"

// dialAs connects as another user: the kernel remembers who connected.
func (w *world) dialAs(uid int, socket string) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for _, call := range []uintptr{syscall.SYS_SETRESGID, syscall.SYS_SETRESUID} {
			if _, _, e := syscall.RawSyscall(call, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
				done <- result{nil, e}
				return
			}
		}
		c, err := net.Dial("unix", w.socket(socket))
		done <- result{c, err}
	}()
	r := <-done
	return r.c, r.err
}

// open lets other users reach the sockets, as a group of the sockets would.
func (w *world) open() {
	w.must(os.Chmod(w.dir+"/run", 0o755))
	w.must(os.Chmod(w.socket("a"), 0o666))
	w.must(os.Chmod(w.socket("o"), 0o666))
}

// as sends one request as a user.
func (w *world) as(uid int, socket, method, path, body string, header map[string]string) (int, []byte) {
	w.t.Helper()
	w.open()
	hc := &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return w.dialAs(uid, socket) },
		DisableKeepAlives: true,
	}, Timeout: 5 * time.Minute}
	req, err := http.NewRequest(method, "http://x"+path, strings.NewReader(body))
	w.must(err)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := hc.Do(req)
	if err != nil {
		return 599, []byte(err.Error())
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	w.must(err)
	return res.StatusCode, b
}

// mine opens a session of a user, with a secret in a variable.
func (w *world) mine(uid int) string {
	w.t.Helper()
	status, b := w.as(uid, "a", "POST", "/sessions", w.fill(`{"cwd":"{ws}"}`), nil)
	var s struct{ Data client.Session }
	if json.Unmarshal(b, &s); status != http.StatusCreated {
		w.t.Fatalf("uid %d: %d %s", uid, status, b)
	}
	if status, b := w.as(uid, "a", "PUT", "/sessions/"+s.Data.ID+"/vars/v", `{"value":"`+secret+`"}`, nil); status >= 300 {
		w.t.Fatalf("uid %d: %d %s", uid, status, b)
	}
	return s.Data.ID
}

// accounts: one account sees and changes nothing of another.
func accounts() []try {
	// Alice has a session; bob tries something with it.
	bob := func(name, method, path, body string) try {
		return try{name, refused, func(w *world) (string, []byte) {
			s := w.mine(2001)
			status, told := w.as(2002, "a", method, strings.ReplaceAll(path, "{s}", s), w.fill(strings.ReplaceAll(body, "{s}", s)), nil)
			if status >= 400 {
				return refused, told
			}
			return strconv.Itoa(status), told
		}}
	}
	return []try{
		bob("reads a session", "GET", "/sessions/{s}", ""),
		bob("changes it", "PATCH", "/sessions/{s}", `{"title":"x"}`),
		bob("deletes it", "DELETE", "/sessions/{s}", ""),
		bob("calls in it", "POST", "/sessions/{s}/calls", `{"tool":"Bash","args":{"command":"true"}}`),
		bob("decides in it", "POST", "/decide", `{"session_id":"{s}","tool":"Bash","args":{"command":"true"}}`),
		bob("lists its variables", "GET", "/sessions/{s}/vars", ""),
		bob("reads its variable", "GET", "/sessions/{s}/vars/v", ""),
		bob("writes its variable", "PUT", "/sessions/{s}/vars/v", `{"value":"x"}`),
		bob("reads where its texts came from", "GET", "/sessions/{s}/origins", ""),
		bob("reads its prompt", "GET", "/sessions/{s}/prompt", ""),
		bob("reads its tools", "GET", "/sessions/{s}/tools", ""),
		bob("takes its id", "POST", "/sessions", `{"id":"{s}","cwd":"{ws}"}`),
		bob("tells its hooks", "POST", "/sessions/{s}/hook-events", `{"event":"stop","input":{}}`),
		{"reads it with the other's name in a header", refused, func(w *world) (string, []byte) {
			s := w.mine(2001)
			status, told := w.as(2002, "a", "GET", "/sessions/"+s+"/vars/v", "", map[string]string{"X-Account-Id": "alice"})
			if status >= 400 {
				return refused, told
			}
			return strconv.Itoa(status), told
		}},
		{"refers to the other's variable", denied, func(w *world) (string, []byte) {
			w.mine(2001)
			var s struct{ Data client.Session }
			_, b := w.as(2002, "a", "POST", "/sessions", w.fill(`{"cwd":"{ws}"}`), nil)
			w.must(json.Unmarshal(b, &s))
			_, told := w.as(2002, "a", "POST", "/sessions/"+s.Data.ID+"/calls", `{"tool":"Bash","args":{"command":"echo $VAR_REF{{v}}"}}`, nil)
			var r struct{ Data client.Result }
			w.must(json.Unmarshal(told, &r))
			return stopped(r.Data), told
		}},
		{"reads the other's files in its private /tmp", contained, func(w *world) (string, []byte) {
			s := w.mine(2001)
			w.as(2001, "a", "POST", "/sessions/"+s+"/calls", `{"tool":"Bash","args":{"command":"echo `+secret+` > /tmp/mine"}}`, nil)
			_, b := w.as(2002, "a", "POST", "/sessions", w.fill(`{"cwd":"{ws}"}`), nil)
			var o struct{ Data client.Session }
			w.must(json.Unmarshal(b, &o))
			_, told := w.as(2002, "a", "POST", "/sessions/"+o.Data.ID+"/calls", `{"tool":"Bash","args":{"command":"cat /tmp/mine /tmp/*/mine"}}`, nil)
			return contained, told
		}},
		{"lists sessions", "nothing of the other", func(w *world) (string, []byte) {
			s := w.mine(2001)
			_, told := w.as(2002, "a", "GET", "/sessions?limit=1000", "", nil)
			return nothingOf(s, told), nil
		}},
		{"lists calls that run", "nothing of the other", func(w *world) (string, []byte) {
			s := w.mine(2001)
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls",
					`{"tool":"Bash","args":{"command":"until [ -e go ]; do sleep 0.01; done","timeout":600000}}`, nil)
			}()
			var theirs struct {
				Data []struct {
					ID string `json:"call_id"`
				}
			}
			w.until("it runs", func() bool {
				_, b := w.as(2001, "a", "GET", "/calls", "", nil)
				return json.Unmarshal(b, &theirs) == nil && len(theirs.Data) == 1
			})
			id := theirs.Data[0].ID
			_, told := w.as(2002, "a", "GET", "/calls", "", nil)
			status, _ := w.as(2002, "a", "POST", "/calls/"+id+"/cancel", `{}`, nil)
			w.file(w.ws+"/go", "", 0o644) // it must run until both have been tried
			<-done
			if status < 400 {
				return "it cancelled the other's call", told
			}
			return nothingOf(id, told), told
		}},
		{"listens to events", "nothing of the other", func(w *world) (string, []byte) {
			w.open()
			c, err := w.dialAs(2002, "a")
			w.must(err)
			defer c.Close()
			_, err = io.WriteString(c, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
			w.must(err)
			r := bufio.NewReader(c)
			for { // until the head of the answer has come
				l, err := r.ReadString('\n')
				w.must(err)
				if l == "\r\n" {
					break
				}
			}
			s := w.mine(2001)
			own := w.mine(2002) // what must be heard
			w.must(c.SetReadDeadline(time.Now().Add(time.Minute)))
			told := ""
			for !strings.Contains(told, own) {
				l, err := r.ReadString('\n')
				w.must(err)
				told += l
			}
			return nothingOf(s, []byte(told)), nil
		}},
		{"two users that nobody names", refused, func(w *world) (string, []byte) {
			s := w.mine(2003)
			status, told := w.as(2004, "a", "GET", "/sessions/"+s+"/vars/v", "", nil)
			if status >= 400 {
				return refused, told
			}
			return strconv.Itoa(status), told
		}},
		{"a user that nobody names, and the daemon's own", refused, func(w *world) (string, []byte) {
			s := w.session()
			status, told := w.as(2003, "a", "GET", "/sessions/"+s, "", nil)
			if status >= 400 {
				return refused, told
			}
			return strconv.Itoa(status), told
		}},
		{"a stranger on the operator socket", refused, func(w *world) (string, []byte) {
			status, told := w.as(2001, "o", "GET", "/approvals", "", nil)
			if status >= 400 {
				return refused, told
			}
			return strconv.Itoa(status), told
		}},
		{"a stranger on a socket that only its owner may open", refused, func(w *world) (string, []byte) {
			w.must(os.Chmod(w.dir+"/run", 0o700))
			w.must(os.Chmod(w.socket("o"), 0o600))
			if c, err := w.dialAs(2001, "o"); err == nil {
				c.Close()
				return "it connected", nil
			}
			return refused, nil
		}},
		{"a file that the account may not read, by Read", contained, func(w *world) (string, []byte) {
			return w.readAs(2002, "Read", w.fill(`{"file_path":"{ws}/private.txt"}`))
		}},
		{"a file that the account may not read, by Grep", contained, func(w *world) (string, []byte) {
			return w.readAs(2002, "Grep", w.fill(`{"pattern":"PLANTED","path":"{ws}/private.txt","output_mode":"content"}`))
		}},
		{"a file that the account may not read, by a command", contained, func(w *world) (string, []byte) {
			return w.readAs(2002, "Bash", `{"command":"cat private.txt"}`)
		}},
		{"a yes of a session that is gone, for one of the same name", asked, func(w *world) (string, []byte) {
			const id = "ses_ATTACK"
			create := w.fill(`{"id":"` + id + `","cwd":"{ws}"}`)
			call := `{"tool":"WriteVar","args":{}}`
			_ = call
			n := 0
			w.answer = func(question) map[string]any {
				if n++; n == 1 {
					return map[string]any{"approved": true, "remember": "session"}
				}
				return map[string]any{"approved": false}
			}
			defer func() { w.answer = nil }()
			run := func() (string, []byte) {
				if status, b := w.send("a", "POST", "/sessions", create, nil); status >= 300 {
					w.t.Fatalf("%d %s", status, b)
				}
				w.must(w.operator.Do(w.t.Context(), "PATCH", "/sessions/"+id, map[string]any{"mode": "default"}, nil))
				defer func() { w.must(w.agent.Do(w.t.Context(), "DELETE", "/sessions/"+id, nil, nil)) }()
				return w.outcome(id, "Write", w.fill(`{"file_path":"{ws}/once.txt","content":"x"}`))
			}
			if first, told := run(); first != contained || n != 1 {
				return "the first call: " + first, told
			}
			return run()
		}},
	}
}

// readAs lets the account of a user read a file that only another user may.
func (w *world) readAs(uid int, tool, args string) (string, []byte) {
	w.t.Helper()
	w.file(w.ws+"/private.txt", secret+"\n", 0o600)
	w.must(os.Chown(w.ws+"/private.txt", 2001, 2001))
	defer os.Remove(w.ws + "/private.txt")
	s := w.mine(uid)
	_, told := w.as(uid, "a", "POST", "/sessions/"+s+"/calls", `{"tool":"`+tool+`","args":`+args+`}`, nil)
	var r struct{ Data client.Result }
	w.must(json.Unmarshal(told, &r))
	return stopped(r.Data), told
}

func nothingOf(id string, told []byte) string {
	if strings.Contains(string(told), id) {
		return "BROKEN: it is told"
	}
	return "nothing of the other"
}
