package scopes

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestMain lets the test binary be the daemon that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("SANDBOXD_TEST_CRASH"); path != "" {
		fmt.Fprintln(os.Stderr, commitForever(path, os.Stdout))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// stagedPerFloor is how many writes each commit resolves.
const stagedPerFloor = 5

// commitForever makes floors, stages writes for them and commits them, and says a line after each act
// that was acknowledged. It ends only with an error.
func commitForever(path string, out io.Writer) error {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: path}, sessions.Schema(), Definition().Schema)
	if err != nil {
		return err
	}
	s := New(db)
	all := sessions.New(db, sessions.Options{})
	all.Attach(s.Part(hostOf(db)))
	if _, _, err := all.Ensure(ctx, tool.Session{ID: "s", Account: "a", Dir: "/"}); err != nil {
		return err
	}
	for {
		f := FloorInfo{ID: s.newID("flr_"), Session: "s", Branch: "main", State: Draft}
		page := s.newID("pag_")
		err := s.write(ctx, "a", noThing, func(v view) error {
			if err := v.Row(`SELECT coalesce(max(floor_no), 0) + 1 FROM scope_floors`).Scan(&f.No); err != nil {
				return err
			}
			if err := v.Run(`INSERT INTO scope_floors (id, account, session, branch, floor_no, state, created, updated)
				VALUES ($1, 'a', 's', 'main', $2, $3, $4, $4)`, f.ID, f.No, f.State, v.now); err != nil {
				return err
			}
			return v.Run(`INSERT INTO scope_pages (id, account, floor, page_no, kind, active, version, created, updated)
				VALUES ($1, 'a', $2, 0, 'output', 1, 1, $3, $3)`, page, f.ID, v.now)
		})
		if err != nil {
			return err
		}
		for i := range stagedPerFloor {
			_, err := setVariable{s}.Run(ctx, tool.In{
				Account: "a", Session: "s", Host: tool.Host{Page: page},
				Args: fmt.Appendf(nil, `{"key":"k%d","value":%q}`, i, strings.Repeat("x", (i*7919)%9000)),
			}, nil)
			if err != nil {
				return err
			}
		}
		fmt.Fprintln(out, "staged", f.ID)
		if err := s.write(ctx, "a", noThing, func(v view) error { return v.commit(&f) }); err != nil {
			return err
		}
		fmt.Fprintln(out, "committed", f.ID)
	}
}

// TestS73_KilledInTheMiddleOfCommits kills a process that commits, over and over: each floor is staged or
// committed as a whole, and what was acknowledged is there.
func TestS73_KilledInTheMiddleOfCommits(t *testing.T) {
	rounds, rnd := tier.Rounds(t, 5, 200), tier.Rand(t)
	dir, path, floors := t.TempDir(), "", 0
	acknowledged := map[string]string{}
	for round := range rounds {
		if round%10 == 0 { // all floors are compared after each kill: with a database that grows, that takes hours
			path = filepath.Join(dir, fmt.Sprint(round))
			floors += len(acknowledged)
			clear(acknowledged)
		}
		commitsUntilKilled(t, path, rnd.IntN(60), acknowledged)
		compareAfterKill(t, path, acknowledged)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d kills, %d floors, none half committed", rounds, floors+len(acknowledged))
}

func commitsUntilKilled(t *testing.T, path string, kill int, acknowledged map[string]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SANDBOXD_TEST_CRASH="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == kill {
			cmd.Process.Kill() // what is in the pipe was acknowledged as well
		}
		if f := strings.Fields(lines.Text()); len(f) == 2 && len(f[1]) == len("flr_")+13 {
			acknowledged[f[1]] = f[0]
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the writer ended by itself: %v %s", err, stderr.String())
	}
}

func compareAfterKill(t *testing.T, path string, acknowledged map[string]string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path}, sessions.Schema(), Definition().Schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[string]bool{}
	err = New(db).read(t.Context(), "a", noThing, func(v view) error {
		return v.Each(func(rows *sql.Rows) error {
			var id, state string
			var snapshot, promoted, staged, traces, vars int
			if err := rows.Scan(&id, &state, &snapshot, &promoted, &staged, &traces, &vars); err != nil {
				return err
			}
			found[id] = true
			got := fmt.Sprint(state, snapshot, promoted, traces, vars)
			whole := fmt.Sprint("committed", 1, stagedPerFloor, stagedPerFloor, stagedPerFloor)
			if got != whole && got != fmt.Sprint("draft", 0, 0, 0, 0) {
				t.Errorf("a floor is half committed: %s, and %d rows are staged", got, staged)
			}
			switch {
			case acknowledged[id] == "committed" && got != whole:
				t.Errorf("a commit was acknowledged and is lost: %s", got)
			case acknowledged[id] == "staged" && promoted+staged != stagedPerFloor:
				t.Errorf("a staged write was acknowledged and is lost: %d and %d", promoted, staged)
			}
			return nil
		}, `SELECT f.id, f.state, f.snapshot,
			(SELECT count(*) FROM scope_staged s JOIN scope_pages p ON p.id = s.page WHERE p.floor = f.id AND s.status = 'promoted'),
			(SELECT count(*) FROM scope_staged s JOIN scope_pages p ON p.id = s.page WHERE p.floor = f.id AND s.status = 'staged'),
			(SELECT count(*) FROM scope_promotions x WHERE x.floor = f.id),
			(SELECT count(*) FROM scope_vars x WHERE x.scope = 'floor' AND x.host = f.id)
			FROM scope_floors f`)
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range acknowledged {
		if !found[id] {
			t.Errorf("floor %s was acknowledged and is lost", id)
		}
	}
	var counted, there int
	err = db.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT (SELECT coalesce(sum(vars), 0) FROM scope_counts), (SELECT count(*) FROM scope_vars)`).Scan(&counted, &there)
	})
	if err != nil || counted != there {
		t.Errorf("%d variables are counted, %d are there, %v", counted, there, err)
	}
}
