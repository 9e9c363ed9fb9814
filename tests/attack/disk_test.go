package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// shared is how a try to fill the disk ends.
const shared = "others are served, and the record is whole"

// filling: one account cannot take the disk of the record from the others. The state lies on a
// file system of 48 MiB. Alice fills it; meanwhile bob makes calls, sessions and variables, and
// one call of his runs all the time.
func filling() []try {
	on := func(w *world, s string, commands ...string) {
		for _, c := range commands {
			w.as(2001, "a", "POST", "/sessions/"+s+"/calls", bashCall(c), nil)
		}
	}
	fill := func(name string, commands ...string) try {
		return small(name, func(w *world, s string) { on(w, s, commands...) })
	}
	value := func(n int) string {
		b, _ := json.Marshal(client.VarChange{Value: strings.Repeat("v", n)})
		return string(b)
	}
	return []try{
		fill("one file", "dd if=/dev/zero of=/tmp/x bs=1M count=100"),
		fill("one file after the other",
			"dd if=/dev/zero of=/tmp/a bs=1M count=15", "dd if=/dev/zero of=/tmp/b bs=1M count=10",
			"dd if=/dev/zero of=/tmp/c bs=1M count=8", "dd if=/dev/zero of=/tmp/d bs=1M count=8",
			"dd if=/dev/zero of=/tmp/e bs=1M count=8"),
		fill("files in caches and /var/tmp",
			"dd if=/dev/zero of=/var/tmp/a bs=1M count=30",
			"mkdir -p $GOCACHE $npm_config_cache; dd if=/dev/zero of=$GOCACHE/a bs=1M count=30; dd if=/dev/zero of=$npm_config_cache/b bs=1M count=30"),
		small("many calls at once", func(w *world, s string) {
			var g sync.WaitGroup
			for range 20 {
				g.Go(func() { on(w, s, "dd if=/dev/zero of=/tmp/$RANDOM$RANDOM bs=100k count=100") })
			}
			g.Wait()
		}),
		fill("files in an endless loop", "while :; do dd if=/dev/zero of=/tmp/$RANDOM bs=64k count=64; done"),
		fill("a file with a hole that is filled",
			"truncate -s 100M /tmp/s; dd if=/dev/zero of=/tmp/s bs=1M count=100 conv=notrunc"),
		fill("blocks that nothing is written to",
			"fallocate -l 40M /tmp/s; fallocate -l 7M /tmp/t; fallocate -l 1M /tmp/u"),
		fill("many names of one file",
			"dd if=/dev/zero of=/tmp/a bs=1M count=40; for i in $(seq 100); do ln /tmp/a /tmp/a$i; done"),
		fill("a file that is deleted and open",
			"exec 3>/tmp/gone; rm /tmp/gone; dd if=/dev/zero bs=1M count=100 >&3; sleep 3"),
		fill("a file in a directory without rights",
			"mkdir /tmp/d; dd if=/dev/zero of=/tmp/d/x bs=1M count=40; chmod 000 /tmp/d"),
		fill("a file that no path leads to",
			"cd /tmp; for i in $(seq 60); do n=$(printf %0200d 1); mkdir $n; cd $n; done; dd if=/dev/zero of=x bs=1M count=40"),
		fill("many empty files",
			"cd /tmp; i=0; while [ $i -lt 60 ]; do mkdir $i; (cd $i; touch $(seq 1000)); i=$((i+1)); done"),
		small("a file for the whole output", func(w *world, s string) {
			w.as(2001, "a", "POST", "/sessions/"+s+"/calls",
				`{"tool":"Bash","args":{"command":"head -c 100000000 /dev/zero","output_file":"/tmp/out"}}`, nil)
		}),
		small("files by Write", func(w *world, s string) {
			for i := range 12 {
				args, _ := json.Marshal(map[string]any{"file_path": fmt.Sprintf("/tmp/w%d", i), "content": strings.Repeat("w", 5_000_000)})
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls", `{"tool":"Write","args":`+string(args)+`}`, nil)
			}
		}),
		small("variables", func(w *world, s string) {
			for i := range 20 {
				w.as(2001, "a", "PUT", fmt.Sprintf("/sessions/%s/vars/v%d", s, i), value(4_000_000), nil)
			}
		}),
		small("variables made of references", func(w *world, s string) {
			w.as(2001, "a", "PUT", "/sessions/"+s+"/vars/v", value(3_000_000), nil)
			for i := range 20 {
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls",
					fmt.Sprintf(`{"tool":"Write","args":{"file_path":"f%d.txt","content":"$VAR_REF{{v}}"}}`, i), nil)
			}
		}),
		small("many sessions", func(w *world, _ string) {
			for range 30 {
				_, b := w.as(2001, "a", "POST", "/sessions", w.fill(`{"cwd":"{ws}","metadata":{"k":"`+strings.Repeat("m", 60_000)+`"}}`), nil)
				var s struct{ Data client.Session }
				if json.Unmarshal(b, &s) == nil && s.Data.ID != "" {
					on(w, s.Data.ID, "dd if=/dev/zero of=/tmp/x bs=1M count=4")
				}
			}
		}),
		small("a batch of calls", func(w *world, s string) {
			one := bashCall("dd if=/dev/zero of=/tmp/$RANDOM$RANDOM bs=1M count=3")
			w.as(2001, "a", "POST", "/sessions/"+s+"/calls", `{"calls":[`+strings.Repeat(one+",", 29)+one+`]}`, nil)
		}),
		small("the old content of a large file", func(w *world, s string) {
			on(w, s, "truncate -s 900M big")
			for range 3 {
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls", `{"tool":"Read","args":{"file_path":"big","limit":1}}`, nil)
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls", `{"tool":"Write","args":{"file_path":"big","content":"x"}}`, nil)
			}
		}),
		small("old contents of many files", func(w *world, s string) {
			for i := range 30 {
				on(w, s, fmt.Sprintf("head -c 3000000 /dev/urandom > f%d", i))
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls", fmt.Sprintf(`{"tool":"Read","args":{"file_path":"f%d","limit":1}}`, i), nil)
				w.as(2001, "a", "POST", "/sessions/"+s+"/calls", fmt.Sprintf(`{"tool":"Write","args":{"file_path":"f%d","content":"x"}}`, i), nil)
			}
		}),
		small("again and again", func(w *world, s string) {
			for range 10 {
				on(w, s, "dd if=/dev/zero of=/tmp/x bs=1M count=100")
			}
		}),
	}
}

// small is a try to fill the disk of the state, which is a small one.
func small(name string, act func(w *world, session string)) try {
	return try{name, shared, func(outer *world) (string, []byte) {
		w := newWorld(outer.t, outer.uid, accountsConfig)
		state := w.dir + "/state"
		if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=48m,mode=0700"); err != nil {
			needs.Missing(outer.t, "mount a file system of its own: %v", err)
		}
		defer func() { w.check(unix.Unmount(state, unix.MNT_DETACH)) }()
		defer w.signal(syscall.SIGKILL)
		w.start()
		mine, bobs := w.mine(2001), w.mine(2002)
		stays := make(chan string, 1)
		go func() {
			_, b := w.as(2002, "a", "POST", "/sessions/"+bobs+"/calls", bashCall("sleep 1; echo stayed"), nil)
			stays <- string(b)
		}()
		over := make(chan struct{})
		go func() { defer close(over); act(w, mine) }()
		trouble, refusals, served := "", 0, time.Now()
		for going := true; going; {
			select {
			case <-over:
				going = false
			case <-time.After(250 * time.Millisecond): // alice has a processor too
			}
			switch why := w.works(2002, bobs); {
			case why == "":
				served = time.Now()
			case !saysFull(why) || time.Since(served) > refusedFor:
				trouble = "BROKEN: meanwhile bob is not served: " + why
			default:
				refusals++ // until the call of alice has ended
			}
		}
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			why := w.works(2002, bobs)
			if why == "" {
				break
			}
			if time.Now().After(limit) {
				trouble = "BROKEN: bob is not served: " + why
				break
			}
		}
		if told := <-stays; !strings.Contains(told, `stayed\n`) {
			trouble = "BROKEN: a call of bob was ended: " + told
		}
		if err := w.operator.Do(w.t.Context(), "POST", "/sessions", map[string]any{"cwd": w.ws}, nil); err != nil {
			trouble = "BROKEN: the operator is not served: " + err.Error()
		}
		if status, b := w.as(2001, "a", "DELETE", "/sessions/"+mine, "", nil); status != http.StatusOK {
			trouble = fmt.Sprintf("BROKEN: alice cannot make room: %d %s", status, b)
		}
		w.t.Logf("bob was refused %d times meanwhile", refusals)
		w.signal(syscall.SIGTERM)
		if why := w.unended(); why != "" {
			trouble = "BROKEN: " + why
		}
		if trouble != "" {
			return trouble, nil
		}
		return shared, nil
	}}
}

// saysFull reports whether somebody is refused because of the disk, and told so: before a write, or by
// the write that has found it full.
func saysFull(why string) bool {
	return strings.Contains(why, "disk_reserve") ||
		strings.Contains(why, "store_unavailable") && strings.Contains(why, "no space is left for the database")
}

// refusedFor is how long bob may be refused. It takes some hundredths of a second to end a call,
// and two minutes until that would have ended by itself.
const refusedFor = time.Minute

// works reports what keeps an account from making calls, variables and sessions.
func (w *world) works(uid int, session string) string {
	for _, x := range []struct{ method, path, body, want string }{
		{"POST", "/sessions/" + session + "/calls", bashCall("echo x > /tmp/f && cat /tmp/f"), `"SUCCESS"`},
		{"PUT", "/sessions/" + session + "/vars/x", `{"value":"y"}`, `"x"`},
		{"POST", "/sessions", w.fill(`{"cwd":"{ws}"}`), `"id"`},
	} {
		status, b := w.as(uid, "a", x.method, x.path, x.body, nil)
		// Other work on this machine may take the time of the rules, but not for ever.
		for end := time.Now().Add(5 * time.Minute); strings.Contains(string(b), `"core.timeout"`) && time.Now().Before(end); {
			status, b = w.as(uid, "a", x.method, x.path, x.body, nil)
		}
		if status >= 300 || !strings.Contains(string(b), x.want) {
			return fmt.Sprintf("%s %s: %d %s", x.method, x.path, status, b)
		}
		var s struct{ Data client.Session }
		if x.path == "/sessions" && json.Unmarshal(b, &s) == nil {
			w.as(uid, "a", "DELETE", "/sessions/"+s.Data.ID, "", nil)
		}
	}
	return ""
}

// unended says what is wrong with the record of a daemon that has stopped: a call without an end,
// or a line that was changed.
func (w *world) unended() string {
	if told, good := w.verify(); !good {
		return "the record: " + string(told)
	}
	text, err := os.ReadFile(w.dir + "/state/audit.jsonl")
	w.must(err)
	open := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		var e struct {
			Event string
			Call  string `json:"call_id"`
		}
		w.must(json.Unmarshal([]byte(l), &e))
		switch e.Event {
		case "begin":
			open[e.Call] = true
		case "end":
			delete(open, e.Call)
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("%d calls began and have no end in the record", len(open))
	}
	return ""
}
