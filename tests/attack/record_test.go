package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// record: it cannot be changed or shortened unseen by somebody without the key.
func record() []try {
	database := []string{"state.db", "state.db-wal", "state.db-shm"}
	// tampered works on the state directory of a daemon that has stopped. Old is a copy of
	// the directory as it was some calls before. The daemon may refuse to start, and verify
	// must tell.
	tampered := func(name string, change func(w *world, state, old string)) try {
		return try{name, "told by verify, and the start is refused", func(outer *world) (string, []byte) {
			w := recorded(outer)
			change(w, w.dir+"/state", w.dir+"/old")
			told, good := w.verify()
			err := w.try()
			w.signal(syscall.SIGTERM)
			switch {
			case good && err == nil:
				return "BROKEN: neither verify nor the start tells", told
			case good:
				return "BROKEN: verify does not tell", told
			case err == nil:
				return "BROKEN: the start is not refused", told
			}
			return "told by verify, and the start is refused", told
		}}
	}
	log := func(edit func(lines []string) []string) func(*world, string, string) {
		return func(w *world, state, _ string) {
			b, err := os.ReadFile(state + "/audit.jsonl")
			w.must(err)
			lines := edit(strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n"))
			w.must(os.WriteFile(state+"/audit.jsonl", []byte(strings.Join(lines, "")), 0o600))
		}
	}
	remove := func(names ...string) func(*world, string, string) {
		return func(w *world, state, _ string) {
			for _, n := range names {
				if err := os.Remove(filepath.Join(state, n)); err != nil && !os.IsNotExist(err) {
					w.t.Fatal(err)
				}
			}
		}
	}
	back := func(names ...string) func(*world, string, string) {
		return func(w *world, state, old string) {
			for _, n := range names {
				_ = os.Remove(filepath.Join(state, n))
				if _, err := os.Stat(filepath.Join(old, n)); err == nil {
					w.must(exec.Command("cp", "-a", filepath.Join(old, n), filepath.Join(state, n)).Run())
				}
			}
		}
	}
	both := func(first, second func(*world, string, string)) func(*world, string, string) {
		return func(w *world, state, old string) { first(w, state, old); second(w, state, old) }
	}
	cut := func(n int) func(*world, string, string) {
		return log(func(l []string) []string { return append(l[:n-1:n-1], strings.TrimSuffix(l[n-1], "\n")+"\n") })
	}
	return []try{
		{"nothing is changed", "good", func(outer *world) (string, []byte) {
			recorded(outer)
			w := recorded(outer) // a copy
			if told, good := w.verify(); !good {
				return "it is not good as it was left", told
			}
			w.serve()
			w.outcome(w.session(), "Bash", bash("true"))
			w.signal(syscall.SIGKILL)
			w.serve()
			w.signal(syscall.SIGTERM)
			if told, good := w.verify(); !good {
				return "it is not good", told
			}
			w.serve()
			return "good", nil
		}},
		tampered("a word in a line is another", log(func(l []string) []string {
			l[3] = strings.Replace(l[3], "Bash", "Read", 1)
			return l
		})),
		tampered("a line is removed", log(func(l []string) []string { return append(l[:4:4], l[5:]...) })),
		tampered("two lines change places", log(func(l []string) []string { l[3], l[4] = l[4], l[3]; return l })),
		tampered("a line is there twice", log(func(l []string) []string { return append(l[:5:5], l[4:]...) })),
		tampered("the log is cut", cut(5)),
		tampered("its last line is cut off", log(func(l []string) []string { return l[:len(l)-1] })),
		tampered("the log is emptied", log(func([]string) []string { return nil })),
		tampered("the log is removed", remove("audit.jsonl")),
		tampered("the database is removed", remove(database...)),
		tampered("the database is removed, the log is cut", both(remove(database...), cut(5))),
		tampered("the database and the log are removed", remove(append(database, "audit.jsonl")...)),
		tampered("the log is rolled back", back("audit.jsonl")),
		tampered("the database is rolled back", back(database...)),
		tampered("both are rolled back", back(append(database, "audit.jsonl")...)),
		tampered("the database is rolled back, the log is cut", both(back(database...), cut(5))),
		tampered("the whole state directory is an earlier one", func(w *world, state, old string) {
			w.must(os.RemoveAll(state))
			w.must(exec.Command("cp", "-a", old, state).Run())
		}),
		tampered("the whole state directory is removed", func(w *world, state, _ string) {
			w.must(clearDir(state))
		}),
		tampered("the record of another daemon takes its place", func(w *world, state, _ string) {
			o := newWorld(w.t, w.uid, "")
			o.start()
			o.outcome(o.session(), "Bash", bash("true"))
			o.signal(syscall.SIGTERM)
			for _, n := range append(database, "audit.jsonl") {
				_ = os.Remove(filepath.Join(state, n))
				if _, err := os.Stat(filepath.Join(o.dir, "state", n)); err == nil {
					w.must(exec.Command("cp", "-a", filepath.Join(o.dir, "state", n), filepath.Join(state, n)).Run())
				}
			}
		}),
	}
}

// recorded is a world whose daemon has made ten calls and has stopped; old is a copy of its state directory
// after five. All of one user begin as copies of the first.
func recorded(outer *world) *world {
	w := newWorld(outer.t, outer.uid, "")
	template := fmt.Sprintf("%s/recorded-%d", bin, w.uid)
	parts := []string{"state", "state-key", "old"}
	copied := func(from, to string) {
		for _, part := range parts {
			w.must(os.RemoveAll(filepath.Join(to, part)))
			w.must(exec.Command("cp", "-a", filepath.Join(from, part), filepath.Join(to, part)).Run())
		}
	}
	if _, err := os.Stat(template); err == nil {
		copied(template, w.dir)
		return w
	}
	w.start()
	s := w.session()
	for _, after := range []func(){
		func() { w.must(exec.Command("cp", "-a", w.dir+"/state", w.dir+"/old").Run()); w.serve() },
		func() { w.must(os.Mkdir(template, 0o755)); copied(w.dir, template) },
	} {
		for range 5 {
			w.outcome(s, "Bash", bash("true"))
		}
		w.signal(syscall.SIGTERM)
		after()
	}
	return w
}

// verify asks sandboxd about the record of the daemon.
func (w *world) verify() (told []byte, good bool) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), bin+"/sandboxd", "audit", "verify")
	cmd.Dir = w.ws
	cmd.Env = []string{
		"HOME=" + w.home, "PATH=" + os.Getenv("PATH"), "SANDBOXD_STATE_DIR=" + w.dir + "/state",
		"XDG_CONFIG_HOME=" + w.dir + "/config",
	}
	cmd.SysProcAttr = w.credential()
	told, err := cmd.CombinedOutput()
	return told, err == nil
}
