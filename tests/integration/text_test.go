package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// written is the answer to a reply of a model that can only write.
type written struct {
	Call     *struct{ Name string }
	Status   string
	Message  *struct{ Role, Content string }
	Continue bool
}

func (d *running) says(session, content string) written {
	d.t.Helper()
	var w written
	err := d.agent.Do(d.t.Context(), "POST", "/sessions/"+session+"/text/reply",
		map[string]string{"role": "assistant", "content": content}, &w)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", content, err, d.log)
	}
	return w
}

type spoken struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// scripted is a model that cannot call tools and is given no system message. It finds in the last
// message of its user how it can call, and goes by what it reads.
func scripted(t *testing.T, talk []spoken) string {
	t.Helper()
	last, told := talk[len(talk)-1].Content, ""
	for _, m := range talk {
		if m.Role == "user" {
			told = m.Content
		}
	}
	if !strings.Contains(told, `[CALL: skill_name({"key": "value"})]`) || !strings.Contains(told, "Write") {
		t.Fatalf("the model does not know how to call: %q", told)
	}
	switch {
	case strings.Contains(last, "Skill result: Read"):
		return fmt.Sprintf("It says forty-two: %v.", strings.Contains(last, "forty-two"))
	case strings.Contains(last, "Skill result: Write"):
		return "Now I read it.\n```\n[ CALL : Read ( file_path=\"a.txt\" ) ]\n```"
	case strings.Contains(last, "Skill execution failed: Write"):
		return `**[CALL: Write({"file_path":"a.txt","content":"forty-two"})]** [CALL: Bash({"command":"id"})]`
	}
	return `I write it. [CALL: Write({\file_path\: 1})]`
}

// TestC32_C24_C33_C38_TheWholeLoop: prompt, reply, call, message, until the model calls no more.
func TestC32_C24_C33_C38_TheWholeLoop(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	if err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+"/callables",
		map[string]string{"name": "greeting", "text": "hello {{who}}"}, nil); err != nil {
		t.Fatal(err)
	}
	talk := []spoken{{"user", "Write forty-two to a.txt and read it."}}
	var statuses []string
	for range 8 {
		var prompt struct{ Messages []spoken }
		err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+"/text/prompt", map[string]any{"messages": talk}, &prompt)
		if err != nil {
			t.Fatal(err)
		}
		stripped := slices.DeleteFunc(slices.Clone(prompt.Messages), func(m spoken) bool {
			return m.Role == "system" && strings.HasPrefix(m.Content, "## Calls")
		})
		reply := scripted(t, stripped)
		talk = append(talk, spoken{"assistant", reply})
		w := d.says(s, reply)
		statuses = append(statuses, w.Status)
		if w.Message != nil {
			talk = append(talk, spoken(*w.Message))
		}
		if !w.Continue {
			break
		}
	}
	if want := []string{"ERROR", "SUCCESS", "SUCCESS", "NO_CALL"}; !slices.Equal(statuses, want) {
		t.Errorf("got %q, want %q: %+v", statuses, want, talk)
	}
	if last := talk[len(talk)-1].Content; last != "It says forty-two: true." {
		t.Errorf("got %q", last)
	}
	out, err := d.exec("sandboxd", "audit", "tail", "-n", "50", "--json")
	if err != nil || strings.Count(out, `"tool":"Write"`) < 2 || strings.Contains(out, `"tool":"Bash"`) {
		t.Errorf("the record: %v\n%s", err, out)
	}
	var st struct{ Calls, Failures int }
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+s+"/text/stats", nil, &st); err != nil || st.Calls != 3 || st.Failures != 1 {
		t.Errorf("got %+v, %v", st, err)
	}
}

// TestC34_ACallByTextIsJudgedLikeEveryOther: by settings, policies and skills, whatever its name is.
func TestC34_ACallByTextIsJudgedLikeEveryOther(t *testing.T) {
	d := newDaemon(t, "policy: {rules: {deny: [banned, Bash(rm *)]}}\ntext: {breakerCalls: 50}\n")
	d.skill("narrow", "---\ndescription: d\nallowed-tools: Read\n---\nNarrow.\n")
	s := d.session()
	for name, spec := range map[string]map[string]any{
		"banned": {"text": "x"}, "fine": {"text": "[CALL: Bash({})] {{who}}"}, "lire": {"tool": "Read"},
		"out": {"url": "http://example.com/{{q}}"}, "Glob": {"enabled": false},
	} {
		if err := d.agent.Do(t.Context(), "PUT", "/sessions/"+s+"/callables/"+name, spec, nil); err != nil {
			t.Fatal(name, err)
		}
	}
	d.write("ws/a.txt", "content of a\n")
	said := func(content, status, want string) {
		t.Helper()
		if w := d.says(s, content); w.Status != status || !strings.Contains(w.Message.Content, want) {
			t.Errorf("%s: got %s %q", content, w.Status, w.Message.Content)
		}
	}
	said(`[CALL: lire({"file_path":"a.txt"})]`, "SUCCESS", "content of a")
	said(`[CALL: fine({"who":"Ann"})]`, "SUCCESS", "Skill result: fine\n---\n[CALL: Bash({})] Ann")
	said(`[CALL: banned]`, "ERROR", "banned")
	said(`[CALL: Bash({"command":"rm a.txt"})]`, "ERROR", "rm")
	said(`[CALL: Read({"file_path":"`+d.home+`/.ssh/id_rsa"})]`, "ERROR", "denied")
	said(`[CALL: out({"q":"x"})]`, "ERROR", "example.com")
	said(`[CALL: Glob({"pattern":"*"})]`, "NOT_FOUND", "not registered or not enabled")
	d.startSkill(s, "narrow")
	said(`[CALL: lire({"file_path":"a.txt"})]`, "SUCCESS", "content of a")
	said(`[CALL: fine({"who":"Ann"})]`, "ERROR", "narrow")
	said(`[CALL: Write({"file_path":"a.txt","content":"x"})]`, "ERROR", "narrow")

	// The names of the list are those that can be called now.
	var prompt struct{ Prompt string }
	if err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+"/text/prompt", map[string]string{"prompt": "x"}, &prompt); err != nil ||
		strings.Contains(prompt.Prompt, "\n- Write:") || !strings.Contains(prompt.Prompt, "\n- Read:") {
		t.Errorf("got %v %s", err, prompt.Prompt)
	}
	// What was registered is the session's, and outlives the daemon.
	var list json.RawMessage
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+d.session()+"/callables", nil, &list); err != nil || strings.Contains(string(list), "lire") {
		t.Errorf("another session has %s, %v", list, err)
	}
}

// TestC28_OnlyAnOperatorClosesTheBreaker after it opened.
func TestC28_OnlyAnOperatorClosesTheBreaker(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	for i := range 6 {
		if w := d.says(s, "[CALL: none]"); (w.Status == "BLOCKED") != (i == 5) || w.Continue == (i == 5) {
			t.Errorf("call %d: got %+v", i, w)
		}
	}
	reset := func(c *client.Client) string {
		return fmt.Sprint(c.Do(context.Background(), "POST", "/sessions/"+s+"/text/reset", map[string]any{}, nil))
	}
	if got := reset(d.agent); !strings.Contains(got, "operator") {
		t.Errorf("an agent: %s", got)
	}
	if got := reset(d.operator); got != "<nil>" {
		t.Errorf("an operator: %s", got)
	}
	if w := d.says(s, "[CALL: none]"); w.Status != "NOT_FOUND" {
		t.Errorf("got %+v", w)
	}
}
