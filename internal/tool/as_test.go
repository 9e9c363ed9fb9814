package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Who knows only Bash or TaskInput sees their fields, whatever the model put beside them.
func TestTheFieldsOfAToolThatIsAnother(t *testing.T) {
	for _, tt := range []struct{ name, tool, args, want, dir string }{
		{"the command", "exec_command", `{"cmd":"ls <x"}`, `{"command":"ls <x"}`, "/src"},
		{"what is not a field", "exec_command", `{"cmd":"a","command":"b"}`, `{"command":"a"}`, "/src"},
		{"what is not a field, alone", "exec_command", `{"command":"b"}`, `{}`, "/src"},
		{"a directory", "exec_command", `{"cmd":"a","workdir":"sub/../x"}`, `{"command":"a","workdir":"sub/../x"}`, "/src/x"},
		{"an absolute one", "exec_command", `{"cmd":"a","workdir":"/b/"}`, `{"command":"a","workdir":"/b/"}`, "/b"},
		{"one below home", "exec_command", `{"cmd":"a","workdir":"~/b"}`, `{"command":"a","workdir":"~/b"}`, "/home/u/b"},
		{"home", "exec_command", `{"workdir":"~"}`, `{"workdir":"~"}`, "/home/u"},
		{"a number as directory", "exec_command", `{"cmd":"a","workdir":1.0}`, `{"command":"a","workdir":1.0}`, "/src"},
		{"no object", "exec_command", `["cmd"]`, `["cmd"]`, "/src"},
		{"null", "exec_command", `null`, `null`, "/src"},
		{"nothing", "exec_command", ``, ``, "/src"},
		{"text for a job", "write_stdin", `{"session_id":"j","chars":"y\n"}`, `{"task_id":"j","text":"y\n"}`, "/src"},
		{"the output of a job", "BashOutput", `{"bash_id":"j"}`, `{"task_id":"j"}`, "/src"},
		{"the end of a job", "KillShell", `{"shell_id":"j"}`, `{"task_id":"j"}`, "/src"},
		{"a tool that is no other", "Bash", `{"command":"a","workdir":"b"}`, `{"command":"a","workdir":"b"}`, "/src"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := json.RawMessage(tt.args)
			if got := tool.ArgsAs(tt.tool, args); !same(t, got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := tool.DirAs(tt.tool, args, "/src", "/home/u"); got != tt.dir {
				t.Errorf("it runs in %s, want %s", got, tt.dir)
			}
		})
	}
}

// Who changes what he saw gets the fields of the tool, with those that he could not know.
func TestArgumentsComeBackFromTheOtherTool(t *testing.T) {
	const was = `{"command":"a","workdir":"/b","yield_time_ms":5,"tty":true}`
	for _, tt := range []struct{ name, changed, want string }{
		{"the command alone", `{"command":"c"}`, `{"cmd":"c","workdir":"/b","yield_time_ms":5}`},
		{"another directory", `{"command":"c","workdir":"/d"}`, `{"cmd":"c","workdir":"/d","yield_time_ms":5}`},
		{"the own name", `{"cmd":"c"}`, `{"cmd":"c","workdir":"/b","yield_time_ms":5}`},
		{"both names", `{"cmd":"c","command":"d"}`, ``},
		{"no object", `[]`, ``},
		{"null", `null`, ``},
	} {
		got, err := tool.ArgsFrom("exec_command", json.RawMessage(tt.changed), json.RawMessage(was))
		if (err != nil) != (tt.want == "") || !same(t, got, tt.want) {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func same(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	if len(got) == 0 || want == "" {
		return string(got) == want
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
