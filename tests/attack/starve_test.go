package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// floodConfig is the budget that the documents promise something for.
const floodConfig = "limits: {agentBytes: 67108864}\naccounts: {2001: alice, 2002: bob}\n"

// starving: one client cannot starve the rest. Alice floods; meanwhile bob and the operator
// are served, the daemon stays small, and afterwards alice's record is whole.
func starving() []try {
	flood := func(name string, act func(w *world, s string)) try {
		return elsewhere(name, "others are served, and the daemon stays small", floodConfig, func(w *world) (string, []byte) {
			s, bobs := w.mine(2001), w.mine(2002)
			over := make(chan struct{})
			go func() { defer close(over); act(w, s) }()
			trouble := ""
			for going := true; going; {
				select {
				case <-over:
					going = false
				case <-time.After(250 * time.Millisecond):
				}
				if status, b := w.as(2002, "a", "POST", "/sessions/"+bobs+"/calls", `{"tool":"Bash","args":{"command":"echo served"}}`, nil); status != 200 || !bytes.Contains(b, []byte("served")) {
					trouble = fmt.Sprintf("BROKEN: bob is not served: %d %.200s", status, b)
				}
				if err := w.operator.Do(w.t.Context(), "GET", "/status", nil, nil); err != nil {
					trouble = "BROKEN: the operator is not served: " + err.Error()
				}
			}
			most := 512 // twice what it may be, for the collector comes late beside other tests
			if tier.IsLong() {
				most = 256
			}
			if mib := w.peak() >> 10; mib >= most {
				trouble = fmt.Sprintf("BROKEN: the daemon took %d MiB", mib)
			}
			if trouble != "" {
				return trouble, nil
			}
			return "others are served, and the daemon stays small", nil
		})
	}
	// many sends this request by n connections of alice at once, and reads what comes as
	// slowly as slow says: nothing at all for a while.
	many := func(n int, slow time.Duration, request func(s string) string) func(*world, string) {
		return func(w *world, s string) {
			var g sync.WaitGroup
			for range n {
				g.Go(func() {
					c, err := w.dialAs(2001, "a")
					if err != nil {
						return
					}
					defer c.Close()
					patience := 20 * time.Second
					if slow > 0 {
						patience = slow + 2*time.Second
					}
					_ = c.SetDeadline(time.Now().Add(patience))
					if _, err := io.WriteString(c, request(s)); err != nil {
						return
					}
					time.Sleep(slow) // a reader that does not read: nothing to wait for
					_, _ = io.Copy(io.Discard, c)
				})
			}
			g.Wait()
		}
	}
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" }
	big := strings.Repeat("\u0001", 1_300_000)
	bodies, requests := 20, 100 // bodies of 8 MB: five are the half of the budget that one account has
	if tier.IsLong() {
		bodies, requests = 60, 300
	}
	return []try{
		flood("a batch of calls that print a megabyte each", func(w *world, s string) {
			calls := make([]json.RawMessage, 20)
			for i := range calls {
				calls[i] = json.RawMessage(`{"tool":"Bash","args":{"command":"head -c 1000000 /dev/zero | tr '\\0' '\\1'"}}`)
			}
			b, _ := json.Marshal(map[string]any{"calls": calls})
			w.as(2001, "a", "POST", "/sessions/"+s+"/calls", string(b), nil)
		}),
		flood("readers of a large value that do not read", func(w *world, s string) {
			b, _ := json.Marshal(client.VarChange{Value: big})
			w.as(2001, "a", "PUT", "/sessions/"+s+"/vars/big", string(b), nil)
			many(30, 3*time.Second, func(s string) string { return get("/sessions/" + s + "/vars/big") })(w, s)
		}),
		flood("bodies that are never finished", many(bodies, 3*time.Second, func(s string) string {
			return "POST /sessions/" + s + "/calls HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n" + strings.Repeat(" ", 7_900_000)
		})),
		flood("chunked bodies that are never finished", many(bodies, 3*time.Second, func(s string) string {
			return "POST /sessions/" + s + "/calls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
				strings.Repeat("10000\r\n"+strings.Repeat(" ", 0x10000)+"\r\n", 120)
		})),
		flood("sessions with large metadata", func(w *world, s string) {
			meta := `{"cwd":"` + w.ws + `","metadata":{"k":"` + strings.Repeat("m", 7_000_000) + `"}}`
			for range 12 {
				w.as(2001, "a", "POST", "/sessions", meta, nil)
			}
			w.as(2001, "a", "GET", "/sessions?limit=1000", "", nil)
		}),
		flood("connections that say nothing", func(w *world, _ string) {
			var open []net.Conn
			for range 2000 {
				c, err := w.dialAs(2001, "a")
				if err != nil {
					break
				}
				open = append(open, c)
			}
			time.Sleep(time.Second) // they stay open while others are served
			for _, c := range open {
				c.Close()
			}
		}),
		flood("small requests without end", many(100, 0, func(s string) string {
			return strings.Repeat(strings.Replace(get("/sessions/"+s), "Connection: close\r\n", "", 1), requests) + get("/healthz")
		})),
		flood("streams of events that nobody reads", func(w *world, s string) {
			go many(50, 5*time.Second, func(string) string { return get("/events") })(w, s)
			for range 100 {
				w.mine(2001)
			}
		}),
		flood("large values in variables", func(w *world, s string) {
			b, _ := json.Marshal(client.VarChange{Value: strings.Repeat("v", 7_000_000)})
			var g sync.WaitGroup
			for i := range 20 {
				g.Go(func() { w.as(2001, "a", "PUT", fmt.Sprintf("/sessions/%s/vars/v%d", s, i), string(b), nil) })
			}
			g.Wait()
		}),
		flood("JSON of a million small values", many(8, 0, func(s string) string {
			return post("/sessions/"+s+"/calls", `{"tool":"Bash","args":{"command":"true","x":[`+strings.Repeat("[],", 2_000_000)+`1]}}`)
		})),
		flood("calls that wait for a person", many(150, time.Second, func(s string) string {
			return post("/sessions/"+s+"/calls", bashCall("git push --force origin main"))
		})),
	}
}

func bashCall(command string) string { return `{"tool":"Bash","args":` + bash(command) + `}` }

// peak is the most memory that the daemon has had, in KiB.
func (w *world) peak() int {
	b, err := os.ReadFile(w.fill("/proc/{pid}/status"))
	w.must(err)
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			return atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
		}
	}
	w.t.Fatal("no VmHWM")
	return 0
}
