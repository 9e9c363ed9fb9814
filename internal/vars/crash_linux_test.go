package vars_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/tests/tier"
)

const crashWriters = 4

// TestMain lets the test binary be the daemon that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("SANDBOXD_TEST_CRASH"); path != "" {
		err := writeForever(path, os.Getenv("SANDBOXD_TEST_ROUND"), os.Stdout)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForever remembers calls and sets values, and says a line after each that
// was acknowledged. It ends only with an error.
func writeForever(path, round string, out io.Writer) error {
	db, err := store.Open(context.Background(), store.Options{Path: path}, vars.Schema())
	if err != nil {
		return err
	}
	s := vars.New(db, vars.Options{Capacity: 1_000_000})
	var mu sync.Mutex // one line at a time
	say := func(format string, args ...any) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
	failed := make(chan error)
	for w := range crashWriters {
		go func() {
			session := "s" + strconv.Itoa(w)
			for i := 0; ; i++ {
				c := tool.NewCall(tool.Request{Session: session, Tool: "Bash", Args: json.RawMessage(`{}`)})
				c.Result.FormattedText = crashValue(c.NodeID)
				if i%16 == 0 { // each writer reads all of them again when it starts
					c.Spec.Origin = tool.OriginWeb
				}
				if err := s.Remember(context.Background(), c, false); err != nil {
					failed <- err
				}
				if err := say("call %s %s", session, c.NodeID); err != nil {
					failed <- err
				}
				value := fmt.Sprintf("%s %d", round, i)
				if _, _, err := s.Put(context.Background(), session, "counter", vars.Change{Value: &value},
					tool.OriginPerson); err != nil {
					failed <- err
				}
				if err := say("count %s %d", session, i); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// crashValue is a value whose torn half would be seen, of one to eight pages.
func crashValue(node string) string {
	return strings.Repeat(node+"\n", 20+int(node[len(node)-1])%8*180)
}

// TestKilledAtAnyMoment kills a process that writes with KILL, over and over: what
// it acknowledged is there, whole, and nothing is half there.
func TestKilledAtAnyMoment(t *testing.T) {
	rounds, rnd := tier.Rounds(t, 8, 200), tier.Rand(t)
	path := filepath.Join(t.TempDir(), "s.db")
	acknowledged := 0
	for round := range rounds {
		calls, counts := killed(t, path, round, rnd.IntN(300))
		acknowledged += len(calls)
		for _, i := range counts {
			acknowledged += i + 1
		}
		afterCrash(t, path, round, calls, counts)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, %d acknowledged writes, 0 lost", rounds, acknowledged)
}

// killed runs the writer until it has acknowledged a number of writes,
// kills it then, and returns all that it said: the session of each call, and the
// last count of each session.
func killed(t *testing.T, path string, round, kill int) (calls map[string]string, counts map[string]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SANDBOXD_TEST_CRASH="+path, "SANDBOXD_TEST_ROUND="+strconv.Itoa(round))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	calls, counts = map[string]string{}, map[string]int{}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == kill {
			cmd.Process.Kill() // what is in the pipe was acknowledged as well
		}
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			break // a line that was cut
		}
		if f[0] == "call" {
			calls[f[2]] = f[1]
		} else if counts[f[1]], err = strconv.Atoi(f[2]); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("round %d: the writer ended by itself: %v %s", round, err, stderr.String())
	}
	return calls, counts
}

func afterCrash(t *testing.T, path string, round int, calls map[string]string, counts map[string]int) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path}, vars.Schema())
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	defer db.Close()
	f := &fixture{t: t, db: db, System: vars.New(db, vars.Options{Capacity: 1_000_000})}
	for node, session := range calls {
		f.session = session
		args, ok := f.get("Bash_" + node + "_args")
		result, both := f.get("Bash_" + node + "_result")
		if !ok || !both || *args.Value != "{}" || *result.Value != crashValue(node) {
			t.Errorf("round %d: call %s was acknowledged and is lost or torn", round, node)
		}
	}
	for w := range crashWriters {
		f.session = "s" + strconv.Itoa(w)
		last, known := counts[f.session]
		v, ok := f.get("counter")
		var in, at int
		if ok {
			if _, err := fmt.Sscanf(*v.Value, "%d %d", &in, &at); err != nil {
				t.Errorf("round %d: counter %q: %v", round, *v.Value, err)
			}
		}
		if known && (!ok || in != round || at < last) {
			t.Errorf("round %d: %s was acknowledged up to %d, and is %d of round %d", round, f.session, last, at, in)
		}
		f.whole(round)
	}
}

// whole checks that no write is half there: a call has both its variables, and
// the head of the session counts what there is.
func (f *fixture) whole(round int) {
	f.t.Helper()
	var rows, total, odd int
	err := f.db.Read(f.t.Context(), func(tx *sql.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM vars WHERE session = $1`, f.session).Scan(&rows); err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT coalesce(max(total), 0) FROM var_sessions WHERE session = $1`,
			f.session).Scan(&total); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT coalesce(abs(sum(CASE WHEN type = 'ToolCallArgs' THEN 1 WHEN type = 'ToolCallResult' THEN -1 ELSE 0 END)), 0)
			FROM vars WHERE session = $1`, f.session).Scan(&odd)
	})
	if err != nil || rows != total || odd != 0 {
		f.t.Errorf("round %d: %s has %d rows, counts %d, %d calls are half there (%v)", round, f.session, rows, total, odd, err)
	}
}
