package integration

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/tier"
	"golang.org/x/sys/unix"
)

// raceTries is how often each race is tried.
func raceTries(t *testing.T) int { return tier.Rounds(t, 5, 1000) }

const (
	goodMake = "deploy:\n\t@echo good prod\n"
	evilMake = "deploy:\n\t@echo EVIL; touch ../EVIL\n"
)

// TestNobodyWinsARaceForAnApprovedCall: one yes serves for the script that was shown, while
// somebody else replaces it all the time. "appear" is a GNUmakefile, which make takes instead
// of the Makefile that was shown. "directory" replaces the one of the script.
func TestNobodyWinsARaceForAnApprovedCall(t *testing.T) {
	tier.Long(t, "a race is chance; TestAnAnswerBindsAtThePointOfUse changes the same files without one")
	t.Parallel()
	for _, unsandboxed := range []bool{true, false} {
		for _, from := range []string{"another call", "another session", "the host"} {
			for _, how := range []string{"rename", "write", "link", "appear", "directory"} {
				name := fmt.Sprintf("unsandboxed %v, by %s from %s", unsandboxed, how, from)
				t.Run(name, func(t *testing.T) { raceApproved(t, unsandboxed, how, from) })
			}
		}
	}
}

func raceApproved(t *testing.T, unsandboxed bool, how, from string) {
	d := newDaemon(t, deployAsks+"sandbox:\n  allowUnsandboxedCommands: true\n  limits: {wallSeconds: 600}\n")
	d.scripts(t)
	s := d.session()
	command, good, fails := "./deploy.sh prod", goodDeploy, "Exit code: 12" // 126, 127: not there at that moment, or busy
	switch how {
	case "appear":
		command, good, fails = "make deploy", goodMake, "Exit code: 2" // make has seen its name
	case "directory":
		command, fails = "(cd sub && ./deploy.sh prod)", "Exit code: 1" // there is none at that moment
	}
	defer d.approveGood(t, good)()
	defer d.flip(t, s, how, from)()
	args, err := json.Marshal(map[string]any{"command": command, "dangerously_disable_sandbox": unsandboxed})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	tries := raceTries(t)
	for i := 0; i < tries || outcomes["good"] == 0 && i < 400; i++ {
		r := d.call(s, "Bash", string(args))
		outcome := string(r.Status)
		switch {
		case r.Error != nil:
			outcome = r.Error.Code
		case strings.HasPrefix(r.FinalText, "good prod"):
			outcome = "good"
		}
		outcomes[outcome]++
		if _, err := os.Lstat(d.work + "/EVIL"); err == nil || strings.Contains(r.FinalText, "EVIL") {
			t.Fatalf("the other script ran: %+v", r)
		}
		if outcome == string(client.StatusSuccess) && !strings.Contains(r.FinalText, fails) {
			t.Fatalf("something else ran: %+v", r)
		}
	}
	t.Log(outcomes)
	if outcomes["good"] == 0 {
		t.Error("none of the approved calls ran, so nothing was shown")
	}
}

// scripts makes the good script, and both to be put in its place.
func (d *running) scripts(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{
		"good": goodDeploy, "evil": evilDeploy, "deploy.sh": goodDeploy, "Makefile": goodMake, "evil.mk": evilMake,
		"sub/deploy.sh": goodDeploy, "evil.d/deploy.sh": evilDeploy,
	} {
		if err := os.MkdirAll(filepath.Dir(d.ws+"/"+name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := replace(d.ws+"/"+name, text); err != nil {
			t.Fatal(err)
		}
	}
}

// approveGood says yes to every question that binds the good file, and no to others, until
// the returned function is called.
func (d *running) approveGood(t *testing.T, text string) (stop func()) {
	good := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		for ctx.Err() == nil {
			var pending []question
			if err := d.operator.Do(ctx, "GET", "/approvals", nil, &pending); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			for _, q := range pending { // one may end meanwhile
				yes := false
				for _, file := range q.Facts.Bound {
					yes = yes || file.Sum == good
				}
				_ = d.operator.Do(ctx, "POST", "/approvals/"+q.ID, map[string]any{"approved": yes}, nil)
			}
			time.Sleep(time.Millisecond)
		}
	})
	return func() { cancel(); over.Wait() }
}

// flip puts the evil script in the place of the good one and back, until the returned
// function is called. The good one stays long enough to be asked about.
func (d *running) flip(t *testing.T, session, how, from string) (stop func()) {
	put := map[string]string{
		"rename":    `cp $1 next; mv next deploy.sh`,
		"write":     `cat $1 > deploy.sh`,
		"appear":    `[ $1 = good ] && rm -f GNUmakefile || cp evil.mk GNUmakefile`,
		"directory": `if [ $1 = evil ]; then mv sub good.d; mv evil.d sub; else mv sub evil.d; mv good.d sub; fi`,
		"link":      `ln -f $1 next; mv -f next deploy.sh; [ deploy.sh -ef $1 ] || ln -sf $1 deploy.sh`,
	}[how]
	line := "put() { " + put + "; }; while [ ! -e stop ]; do put evil; put good; sleep 0.01; done"
	var over sync.WaitGroup
	if from == "the host" {
		over.Go(func() {
			for {
				if _, err := os.Lstat(d.ws + "/stop"); err == nil {
					return
				}
				for _, name := range []string{"evil", "good"} {
					if err := d.put(how, name); err != nil && !errors.Is(err, os.ErrExist) {
						continue // busy: it runs
					}
					time.Sleep(time.Millisecond)
				}
				time.Sleep(14 * time.Millisecond)
			}
		})
	} else {
		if from == "another session" {
			session = d.session()
		}
		args, err := json.Marshal(map[string]any{"command": line, "timeout": 600_000})
		if err != nil {
			t.Fatal(err)
		}
		over.Go(func() {
			r, err := d.agent.Call(context.Background(), session, "Bash", args)
			if err != nil || r.Error != nil {
				t.Errorf("the attack ended with %v, %+v", err, r)
			}
		})
	}
	return func() { d.write("ws/stop", ""); over.Wait() }
}

// put is what the host does with the script.
func (d *running) put(how, name string) error {
	target, next := d.ws+"/deploy.sh", d.ws+"/next"
	text, err := os.ReadFile(d.ws + "/" + name)
	if err != nil {
		return err
	}
	switch how {
	case "rename":
		return replace(target, string(text))
	case "write":
		return os.WriteFile(target, text, 0o700)
	case "appear":
		if name == "good" {
			return os.Remove(d.ws + "/GNUmakefile")
		}
		return os.WriteFile(d.ws+"/GNUmakefile", []byte(evilMake), 0o600)
	case "directory":
		return unix.Renameat2(unix.AT_FDCWD, d.ws+"/sub", unix.AT_FDCWD, d.ws+"/evil.d", unix.RENAME_EXCHANGE)
	}
	_ = os.Remove(next)
	return errors.Join(os.Symlink(name, next), os.Rename(next, target))
}

// TestNobodyWinsARaceForAHeldCall: the same for a call that a client of the daemon runs.
func TestNobodyWinsARaceForAHeldCall(t *testing.T) {
	tier.Long(t, "a race is chance; TestAnAnswerBindsAtThePointOfUse changes the same files without one")
	t.Parallel()
	for _, how := range []string{"rename", "write", "link"} {
		t.Run(how, func(t *testing.T) {
			d := newDaemon(t, deployAsks)
			d.scripts(t)
			s := d.session()
			defer d.approveGood(t, goodDeploy)()
			defer d.flip(t, s, how, "the host")()
			ran, tries := 0, raceTries(t)
			for i := 0; i < tries || ran == 0 && i < 400; i++ {
				var held struct {
					CallID   string                   `json:"call_id"`
					Decision struct{ Verdict string } `json:"decision"`
				}
				in := map[string]any{
					"session_id": s, "tool": "Bash", "args": map[string]any{"command": "./deploy.sh prod"},
					"wait": true, "hold": true,
				}
				err := d.agent.Do(t.Context(), "POST", "/decide", in, &held)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(bin+"/sandboxd", "exec", "--call", held.CallID)
				cmd.Dir, cmd.Env = d.ws, d.env
				out, _ := cmd.Output() // a refusal is told in the status
				if _, err := os.Lstat(d.work + "/EVIL"); err == nil || len(out) > 0 && string(out) != "good prod\n" {
					t.Fatalf("something else ran: %s", out)
				}
				if len(out) > 0 {
					ran++
				}
			}
			t.Logf("%d ran", ran)
			if ran == 0 {
				t.Error("none of the approved calls ran, so nothing was shown")
			}
		})
	}
}
