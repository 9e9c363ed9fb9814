package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// lasting is a row of the table in docs/sessions.md: what a session gets, and how to see that it
// is after a restart what the row says.
type lasting struct {
	before func(d *running, s string)
	after  func(d *running, s string) error
}

// get is a field of what a path answers, as JSON.
func (d *running) get(c *client.Client, path, field string) string {
	d.t.Helper()
	var all map[string]json.RawMessage
	if err := c.Do(d.t.Context(), "GET", path, nil, &all); err != nil {
		return err.Error()
	}
	return string(all[field])
}

// must sends a request that succeeds.
func (d *running) must(c *client.Client, method, path, body string) json.RawMessage {
	d.t.Helper()
	var out json.RawMessage
	if err := c.Do(d.t.Context(), method, path, json.RawMessage(body), &out); err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

func same(what string, see func(d *running, s string) string) lasting {
	was := ""
	return lasting{
		func(d *running, s string) {
			if was = see(d, s); was == "" || was == "null" || was == "[]" {
				d.t.Errorf("there is nothing to last: %s is %q", what, was)
			}
		},
		func(d *running, s string) error {
			if now := see(d, s); now != was {
				return fmt.Errorf("%s was %s and is %s", what, was, now)
			}
			return nil
		},
	}
}

// and is a row that needs something first.
func (l lasting) and(first func(d *running, s string)) lasting {
	before := l.before
	l.before = func(d *running, s string) {
		first(d, s)
		before(d, s)
	}
	return l
}

func field(name string) func(d *running, s string) string {
	return func(d *running, s string) string { return d.get(d.agent, "/sessions/"+s, name) }
}

// Each row of the table of docs/sessions.md holds, after kill -9 and after a stop.
func TestD18_D19_WhatASessionIsAfterARestart(t *testing.T) {
	for name, sig := range map[string]os.Signal{"kill -9": os.Kill, "a stop": os.Interrupt} {
		t.Run(name, func(t *testing.T) { restarts(t, sig) })
	}
}

func restarts(t *testing.T, sig os.Signal) {
	d := newDaemon(t, "approvals: {timeout: 2m}\ntools: {permissions: {Glob: {results: always}, Grep: {execution: ask-once}}}\napi: {stopGrace: 0s}\n")
	var held, job, call, changed, asked string
	rows := map[string]lasting{
		"id, directory, mode, profile, title, tag, metadata": same("the session", func(d *running, s string) string {
			return field("id")(d, s) + field("cwd")(d, s) + field("mode")(d, s) + field("profile")(d, s) +
				field("title")(d, s) + field("tag")(d, s) + field("metadata")(d, s)
		}).and(func(d *running, s string) {
			d.must(d.operator, "PATCH", "/sessions/"+s,
				`{"mode":"acceptEdits","profile":"light","title":"t","tag":"g","metadata":{"n":12345678901234567890}}`)
		}),
		"messages": same("what was said", func(d *running, s string) string { return strings.Join(d.heard(s), " ") }).and(
			func(d *running, s string) {
				if err := d.agent.Do(d.t.Context(), "PUT", "/sessions/"+s+"/messages", said("1", "2"), nil); err != nil {
					d.t.Fatal(err)
				}
			}),
		"groups and tools that were switched": same("the tools", func(d *running, s string) string {
			return field("tools")(d, s) + field("groups")(d, s)
		}).and(func(d *running, s string) {
			d.must(d.operator, "PUT", "/sessions/"+s+"/tools/Grep", `{"enabled":false}`)
			d.must(d.operator, "PUT", "/sessions/"+s+"/groups/web", `{"enabled":false}`)
		}),
		"tools that ToolSearch found": same("the list", func(d *running, s string) string {
			return fmt.Sprint(strings.Contains(string(d.must(d.agent, "GET", "/sessions/"+s+"/tools", "null")), `"NotebookEdit"`))
		}).and(func(d *running, s string) { d.mustCall(s, "ToolSearch", `{"query":"select:NotebookEdit"}`) }),
		"sandbox settings of an operator": same("sandbox", field("sandbox")).and(func(d *running, s string) {
			d.must(d.operator, "PATCH", "/sessions/"+s, `{"sandbox":{"limits":{"wallSeconds":77}}}`)
		}),
		"variables": same("a variable", func(d *running, s string) string { return d.get(d.agent, "/sessions/"+s+"/vars/mine", "value") }).and(
			func(d *running, s string) { d.must(d.agent, "PUT", "/sessions/"+s+"/vars/mine", `{"value":"kept"}`) }),
		"results that waited for a person": {
			func(d *running, s string) {
				go d.agent.Call(d.t.Context(), s, "Glob", json.RawMessage(`{"pattern":"*"}`))
				if !waitFor(func() bool { return strings.Contains(d.pending(s), `"result"`) }) {
					d.t.Error("no result waits")
				}
			},
			func(d *running, s string) error {
				if vars := string(d.must(d.agent, "GET", "/sessions/"+s+"/vars", "null")); strings.Contains(vars, "Glob_") &&
					strings.Contains(vars, "_result") {
					return fmt.Errorf("the result is there: %s", vars)
				}
				return nil
			},
		},
		"whose text the model was shown": same("the origins", func(d *running, s string) string {
			return d.get(d.agent, "/sessions/"+s+"/origins", "session")
		}).and(func(d *running, s string) { d.mustCall(s, "Bash", `{"command":"cat f"}`) }),
		"answers that are remembered for the session": same("the grants", func(d *running, _ string) string {
			return string(d.must(d.operator, "GET", "/grants", "null"))
		}).and(func(d *running, s string) {
			go d.agent.Call(d.t.Context(), s, "Grep", json.RawMessage(`{"pattern":"nowhere"}`))
			d.must(d.operator, "POST", "/approvals/"+d.askedAbout(s, "nowhere"), `{"approved":true,"remember":"session"}`)
		}),
		"questions that wait": {
			func(d *running, s string) {
				go d.agent.Call(d.t.Context(), s, "Bash", json.RawMessage(`{"command":"git push --force elsewhere"}`))
				asked = d.askedAbout(s, "elsewhere")
			},
			func(d *running, s string) error {
				if sig != os.Kill {
					if now := d.pending(s); now != "[]" {
						return fmt.Errorf("after a stop there waits %s", now)
					}
					return nil
				}
				if !strings.Contains(d.pending(s), asked) {
					return fmt.Errorf("%s does not wait any more: %s", asked, d.pending(s))
				}
				d.must(d.operator, "POST", "/approvals/"+asked, `{"approved":true}`)
				if r := d.call(s, "Bash", `{"command":"git push --force elsewhere"}`); r.Status != client.StatusSuccess {
					return fmt.Errorf("the answer is not usable: %s %+v", r.Status, r.Error)
				}
				return nil
			},
		},
		"calls that run": {
			func(d *running, s string) {
				go d.agent.Call(d.t.Context(), s, "Bash", json.RawMessage(`{"command":"sleep 1000"}`))
				if !waitFor(func() bool {
					call = string(d.must(d.agent, "GET", "/calls", "null"))
					return strings.Contains(call, s)
				}) {
					d.t.Error("no call runs")
				}
			},
			func(d *running, s string) error {
				var runs []struct {
					CallID  string `json:"call_id"`
					Session string `json:"session_id"`
				}
				if err := json.Unmarshal([]byte(call), &runs); err != nil {
					return err
				}
				if now := string(d.must(d.agent, "GET", "/calls", "null")); now != "[]" {
					return fmt.Errorf("calls run: %s", now)
				}
				record, err := os.ReadFile(d.work + "/state/audit.jsonl")
				for _, c := range runs {
					if c.Session != s { // of another row
						continue
					}
					ended := regexp.MustCompile(`"event":"end"[^\n]*"` + c.CallID + `"`).Match(record)
					if err != nil || ended != (sig != os.Kill) {
						return fmt.Errorf("call %s has an end: %v, %v", c.CallID, ended, err)
					}
				}
				return nil
			},
		},
		"jobs": {
			func(d *running, s string) { job = d.begin(s, `{"command":"sleep 1000","run_in_background":true}`) },
			func(d *running, s string) error {
				j, err := d.agent.Job(d.t.Context(), job)
				if want := map[bool]string{true: "lost", false: "killed"}[sig == os.Kill]; err != nil || j.State != want {
					return fmt.Errorf("the job is %s, %v, want %s", j.State, err, want)
				}
				return nil
			},
		},
		"commands that a client may still run (`hold`)": {
			func(d *running, s string) {
				var got struct {
					Call string `json:"call_id"`
				}
				body := `{"session_id":"` + s + `","tool":"Bash","args":{"command":"true"},"hold":true}`
				if err := json.Unmarshal(d.must(d.agent, "POST", "/decide", body), &got); err != nil || got.Call == "" {
					d.t.Errorf("nothing is held: %v", err)
				}
				held = got.Call
			},
			func(d *running, s string) error {
				err := d.agent.Do(d.t.Context(), "POST", "/calls/"+held+"/run", nil, nil)
				if code(err) != "call_not_held" {
					return fmt.Errorf("got %v", err)
				}
				return nil
			},
		},
		"private files (/tmp and caches)": {
			func(d *running, s string) { d.mustCall(s, "Bash", `{"command":"echo mine > /tmp/mine"}`) },
			func(d *running, s string) error {
				now := d.call(s, "Bash", `{"command":"cat /tmp/mine"}`).FinalText
				if there := strings.HasPrefix(now, "mine\n"); there != (sig == os.Kill) {
					return fmt.Errorf("got %s", now)
				}
				return nil
			},
		},
		"changes that can be undone": {
			func(d *running, s string) {
				changed = d.mustCall(s, "Write", `{"file_path":"written.txt","content":"x"}`).CallID
			},
			func(d *running, s string) error {
				d.must(d.agent, "POST", "/calls/"+changed+"/undo", `{}`)
				if _, err := os.Stat(d.ws + "/written.txt"); !os.IsNotExist(err) {
					return fmt.Errorf("the file is there: %v", err)
				}
				return nil
			},
		},
	}
	text, err := os.ReadFile("../../docs/sessions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## After a restart")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| .+ \|$`).FindAllStringSubmatch(table, -1)[2:] {
		named[m[1]] = true
		if rows[m[1]].before == nil {
			t.Errorf("nothing shows the row %q", m[1])
		}
	}
	d.write("ws/f", "text of the repository\n")
	ids := map[string]string{}
	for name, row := range rows {
		if !named[name] {
			t.Errorf("the table has no row %q", name)
		}
		ids[name] = d.session()
		row.before(d, ids[name])
	}
	d.stop(sig)
	d.start()
	for name, row := range rows {
		if err := row.after(d, ids[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A stop ends what waits for a person, although it ends the calls that wait as well.
func TestD18_AStopEndsEachQuestionThatWaits(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "approvals: {timeout: 2m}\napi: {stopGrace: 0s}\n")
	s := d.session()
	const questions = 12
	for i := range questions {
		command := fmt.Sprintf(`{"command":"git push --force to-%d"}`, i)
		go d.agent.Call(d.t.Context(), s, "Bash", json.RawMessage(command))
	}
	if !waitFor(func() bool { return strings.Count(d.pending(s), `"status":"pending"`) == questions }) {
		t.Fatalf("not all wait: %s", d.pending(s))
	}
	d.stop(os.Interrupt)
	d.start()
	if n := strings.Count(d.pending(s), `"status":"pending"`); n != 0 {
		t.Errorf("after a stop %d of %d questions wait", n, questions)
	}
}

// pending are the questions of a session that wait.
func (d *running) pending(s string) string {
	d.t.Helper()
	return string(d.must(d.operator, "GET", "/approvals?session_id="+s, "null"))
}

// askedAbout waits for the question of a session about a command with this text.
func (d *running) askedAbout(s, text string) (id string) {
	d.t.Helper()
	if !waitFor(func() bool {
		var all []struct {
			ID   string          `json:"id"`
			Args json.RawMessage `json:"args"`
		}
		if err := json.Unmarshal([]byte(d.pending(s)), &all); err != nil {
			d.t.Fatal(err)
		}
		for _, q := range all {
			if strings.Contains(string(q.Args), text) {
				id = q.ID
			}
		}
		return id != ""
	}) {
		d.t.Fatalf("nobody is asked about %s", text)
	}
	return id
}
