package guard

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// TestBulkOfPaths: every line has its answer, in order, and none of them fails open.
func TestBulkOfPaths(t *testing.T) {
	in := strings.Join([]string{
		`{"id":1,"path":"/w/a","op":"read","cwd":"/w","settings":{}}`,
		`{"id":2,"path":"~/.ssh/id","op":"read","cwd":"/home/dev/app","settings":{"deniedPaths":["/home/dev/.ssh"]}}`,
		`{"id":3,"path":"~/a","op":"read","cwd":"/w","home":"/h","settings":{"allowedReadPaths":["/h"]}}`,
		`{"id":4,"path":"~/a","op":"read","cwd":"/home/..","settings":{}}`,
		`{"id":5,"op":"read","cwd":"/w","settings":{}}`,
		`{"id":6,"path":"a","op":"run","cwd":"/w","settings":{}}`,
		`{"id":7,"path":"a","op":"write","cwd":"/w"}`,
		`{"id":8,"path":"a","op":"write","cwd":"/w","settings":{"deniedPaths":["rel"]}}`,
		`{"id":9,"path":["a"]}`,
	}, "\n\n")
	want := []string{
		`{"id":1,"verdict":"allow","resolved":"/w/a","reasons":[]}`,
		`{"id":2,"verdict":"deny","resolved":"/home/dev/.ssh/id","reasons":[{"code":"path_denied"`,
		`{"id":3,"verdict":"allow","resolved":"/h/a"`,
		`{"id":4,"verdict":"deny","resolved":"","reasons":[{"code":"path_no_directory"`,
		`{"id":5,"error":"no path"}`,
		`{"id":6,"error":"op \"run\" is not read or write"}`,
		`{"id":7,"error":"no settings"}`,
		`{"id":8,"verdict":"deny","resolved":"","reasons":[{"code":"settings_invalid"`,
		`{"id":9,"error":"json: `,
	}
	var out strings.Builder
	if err := CheckPathLines(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d answers, want %d: %s", len(lines), len(want), out.String())
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d: %s, want %s…", i+1, lines[i], want[i])
		}
	}
}

// TestPathsOfACommandsAnswer: one that cannot be known is told by its words.
func TestPathsOfACommandsAnswer(t *testing.T) {
	j := JudgeCommand(`cat "$1" a >"$2"`, "/w", "/h", Settings{})
	f := j.CommandAnswer().Facts
	slices.Sort(f.Reads)
	if !slices.Contains(f.Reads, "/w/a") || slices.Contains(f.Reads, "") || len(f.Reads) < 2 ||
		len(f.Writes) != 1 || f.Writes[0] == "" {
		t.Errorf("reads %q, writes %q", f.Reads, f.Writes)
	}
}

// TestOpaquePartsOfACommandsAnswer: what the guard cannot read is in the facts, with its place.
func TestOpaquePartsOfACommandsAnswer(t *testing.T) {
	f := JudgeCommand(`ls; eval "$X"`, "/w", "/h", Settings{}).CommandAnswer().Facts
	if len(f.Opaque) != 1 || f.Opaque[0].Code == "" || f.Opaque[0].Message == "" || f.Opaque[0].At.Col != 10 {
		t.Errorf("got %+v", f.Opaque)
	}
}

// broken is a pipe whose reader has gone.
type broken struct{}

var errGone = errors.New("the reader has gone")

func (broken) Write([]byte) (int, error) { return 0, errGone }

func TestBulkOfLongLines(t *testing.T) {
	line := func(n int) string {
		return `{"id":1,"command":"rm ` + strings.Repeat("x", n) + `","settings":{"deniedCommands":["rm"]}}`
	}
	var out strings.Builder
	// Longer than the buffer of the reader, and than what the parser takes.
	if err := CheckCommandLines(strings.NewReader(line(100)+"\n"+line(60_000)+"\n"+line(1<<20)+"\n"),
		&out); err != nil {
		t.Fatal(err)
	}
	for i, code := range []string{"command_denied", "command_denied", "too_large"} {
		var a CommandAnswer
		answer := strings.Split(out.String(), "\n")[i]
		if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Verdict != Deny || a.Reasons[0].Code != code {
			t.Errorf("line %d: %.200s, want %s (%v)", i+1, answer, code, err)
		}
	}
	if err := CheckCommandLines(strings.NewReader(line(maxLine+1<<17)), &out); err == nil {
		t.Error("a line that is longer than the largest command is read")
	}
	if err := CheckCommandLines(strings.NewReader(line(1)), broken{}); !errors.Is(err, errGone) {
		t.Errorf("an answer that cannot be written: %v", err)
	}
}

func TestAVerdictThatIsNotKnownDenies(t *testing.T) {
	for text, want := range map[string]Verdict{
		`"allow"`: Allow, `"ask"`: Ask, `"deny"`: Deny, `"Allow"`: Deny, `""`: Deny,
	} {
		got := Allow
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", text, got, err, want)
		}
	}
	if got := Verdict(7).String() + Verdict(-1).String(); got != "denydeny" {
		t.Errorf("numbers that are no verdict are %s", got)
	}
}

// TestAnErrorOfAnyKindDenies: what is not understood is a denial, with its words.
func TestAnErrorOfAnyKindDenies(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code string
	}{
		{&shellparse.Error{Code: "too_large", Msg: "m"}, "too_large"},
		{&PathError{Code: "path_loop", Msg: "m"}, "path_loop"},
		{errors.New("m"), "internal"},
	} {
		ref := refusalOf(tt.err)
		if j := judgement([]Refusal{ref}); j.Verdict != Deny || ref.Code != tt.code || ref.Message == "" {
			t.Errorf("%v: %s %+v, want %s", tt.err, j.Verdict, ref, tt.code)
		}
	}
	refused := Denied{Type: "path", Value: "/x", Refusals: []Refusal{{Message: "first"}, {Message: "second"}}}
	if refused.Error() != "first" {
		t.Errorf("the text of a denial is %q", refused.Error())
	}
}

// Callers act on codes: each refusal has its own.
func TestTheCodeSaysWhatIsRefused(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("round", filepath.Join(dir, "round")); err != nil {
		t.Fatal(err)
	}
	lists := Settings{
		AllowedReadPaths: []string{dir, "/usr"}, AllowedWritePaths: []string{dir},
		DeniedPaths: []string{dir + "/secret"}, DeniedCommands: []string{"rm"},
	}
	hosts := Settings{DeniedPaths: lists.DeniedPaths, Network: Network{AllowedDomains: []string{"a.test"}}}
	for _, tt := range []struct {
		line string
		s    Settings
		code string
	}{
		{"rm x", lists, "command_denied"},
		{"ls", Settings{AllowedCommands: []string{"git"}}, "command_not_allowed"},
		{"./git status", Settings{AllowedCommands: []string{"git"}}, "command_not_allowed"},
		{"$x y", lists, "command_unknown"},
		{"cat secret/key", lists, "path_denied"},
		{"rm -r .", Settings{DeniedPaths: lists.DeniedPaths}, "path_denied"},
		{"cat /etc/hosts", lists, "path_outside_read_scope"},
		{"touch /usr/x", lists, "path_outside_write_scope"},
		{`cat "$x"`, lists, "path_unknown"},
		{"python3 -c 'f()'", lists, "opaque"},
		{"set +B; ls", lists, "opaque"},
		{"cat round/x", lists, "path_unknown"},
		{"curl https://b.test", hosts, "host_denied"},
		{"exec 3<>/dev/tcp/b.test/443", hosts, "host_denied"},
		{"exec 3<>/dev/udp/b.test/443", hosts, "path_device"},
	} {
		j := JudgeCommand(tt.line, dir, "/home/dev", tt.s)
		if j.Verdict == Allow || j.Reasons[0].Code != tt.code {
			t.Errorf("%s: %s %+v, want %s", tt.line, j.Verdict, j.Reasons, tt.code)
		}
	}
	for path, code := range map[string]string{
		"~other/x": "path_tilde_user", "round/x": "path_loop", "/proc/1/environ": "path_proc",
		"a\x01": "path_control_character", "/etc/hosts": "path_outside_read_scope",
	} {
		if j := JudgePath(path, Read, dir, "/home/dev", lists); j.Verdict != Deny || j.Reasons[0].Code != code {
			t.Errorf("%q: %s %+v, want %s", path, j.Verdict, j.Reasons, code)
		}
	}
}

// A refusal says which setting decided, and which words of the line are meant.
func TestARefusalNamesItsSettingAndItsPlace(t *testing.T) {
	lists := Settings{
		AllowedReadPaths: []string{"/w", "/usr"}, AllowedWritePaths: []string{"/w"},
		DeniedPaths: []string{"/w/secret"}, DeniedCommands: []string{"rm"},
	}
	hosts := Settings{DeniedPaths: lists.DeniedPaths, Network: Network{AllowedDomains: []string{"a.test"}}}
	only := Settings{AllowedCommands: []string{"git", "python3", "true"}}
	for _, tt := range []struct {
		line           string
		s              Settings
		rule, at, hint string
	}{
		{"true; rm x", lists, "deniedCommands: rm", "rm x", "'rm' is in deniedCommands"},
		{"true; frob rm x", lists, "deniedCommands: rm", "rm", "nothing is known of 'frob', and 'rm' is in deniedCommands"},
		{"true; ls", only, "allowedCommands", "ls", "allowedCommands allows git, python3, true"},
		{"ls", Settings{AllowedCommands: []string{}}, "allowedCommands", "ls", "allowedCommands is an empty list"},
		{
			"true; ./git x", only, "allowedCommands", "./git x",
			"'git' in allowedCommands is the program found in PATH, not ./git",
		},
		{"true; $x y", lists, "command name", "$x y", "write the name of the program out"},
		{"true; cat secret/x", lists, "deniedPaths: /w/secret", "secret/x", "/w/secret and everything below it is denied"},
		{"true; rm -r .", hosts, "deniedPaths: /w/secret", ".", "the tree holds /w/secret"},
		{"true; cat /etc/x", lists, "allowedReadPaths", "/etc/x", "allowedReadPaths allows /w, /usr"},
		{"true; touch /usr/x", lists, "allowedWritePaths", "/usr/x", "allowedWritePaths allows /w"},
		{`true; cat "$x"`, lists, "allowedReadPaths", `"$x"`, "write the path out"},
		{`true; echo > "$x"`, lists, "allowedWritePaths", `"$x"`, "write the path out"},
		{"true; cat /proc/self/x", lists, "allowedReadPaths", "/proc/self/x", "name the file itself"},
		{"true; python3 -c 'f()'", lists, "deniedCommands", "'f()'", "write it as plain commands"},
		{"true; python3 -c 'f()'", hosts, "path rules", "'f()'", "write it as plain commands"},
		{"true; python3 -c 'f()'", only, "allowedCommands", "'f()'", "write it as plain commands"},
		{"true; curl https://b.test", hosts, "network.allowedDomains", "curl https://b.test", noWayOut},
		{"true; : >/dev/tcp/b.test/443", hosts, "network.allowedDomains", "/dev/tcp/b.test/443", noWayOut},
		{"true; : >/dev/udp/b.test/443", hosts, "path rules", "/dev/udp/b.test/443", "connect to a host by its name"},
	} {
		j := JudgeCommand(tt.line, "/w", "/home/dev", tt.s)
		if len(j.Reasons) == 0 {
			t.Errorf("%s is allowed", tt.line)
			continue
		}
		r := j.Reasons[0]
		if at := tt.line[r.At.Offset:r.At.End]; r.Rule != tt.rule || at != tt.at || !strings.HasPrefix(r.Hint, tt.hint) {
			t.Errorf("%s: %q at %q: %q; want %q at %q: %q", tt.line, r.Rule, at, r.Hint, tt.rule, tt.at, tt.hint)
		}
	}
}

// A call that asks to leave the sandbox is refused, or a person is asked.
func TestACallThatAsksToLeaveTheSandbox(t *testing.T) {
	for _, tt := range []struct {
		may  bool
		code string
		rule string
	}{
		{false, "unsandboxed_refused", "allowUnsandboxedCommands: false"},
		{true, "unsandboxed_asked", "allowUnsandboxedCommands"},
	} {
		got := NewRules(Settings{AllowUnsandboxedCommands: tt.may}).Check(Uses{Unconfined: true})
		if len(got) != 1 || got[0].Code != tt.code || got[0].Rule != tt.rule || got[0].Ask != tt.may || got[0].Caged ||
			got[0].Message == "" || got[0].Hint == "" {
			t.Errorf("where it may ask: %v: %+v", tt.may, got)
		}
	}
}
