package policy

import (
	"encoding/csv"
	"os"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// modeRows are the requirement of each mode.
var modeRows = map[tool.Mode]string{
	tool.ModeDefault: "P-02", tool.ModePlan: "P-03", tool.ModeAuto: "P-04",
	tool.ModeAcceptEdits: "P-05", tool.ModeDontAsk: "P-06", tool.ModeBypassPermissions: "P-07",
}

// TestP01_P02_P03_P04_P05_P06_P07_CX33_EveryModeAndEffect reads its expectations from
// testdata/modes.csv, the table that docs/policies.md shows.
func TestP01_P02_P03_P04_P05_P06_P07_CX33_EveryModeAndEffect(t *testing.T) {
	rows := modeTable(t)
	header := rows[0]
	for _, row := range rows[1:] {
		mode := tool.Mode(row[0])
		for i, want := range row[1:] {
			column := header[i+1]
			t.Run(modeRows[mode]+" "+string(mode)+"/"+column, func(t *testing.T) {
				opts := Options{RelaxReads: column == "read relaxed"}
				if slices.Contains([]string{"deny", "ask", "allow"}, column) {
					opts.Rules = rulesWith(Effect(column), "Todo")
				}
				e := newEngine(t, opts)
				if got := decide(t, e, modeCall(t, mode, column)); got.Verdict.String() != want {
					t.Errorf("got %s, want %s", got.Verdict, want)
				}
			})
		}
	}
	if len(rows)-1 != len(tool.Modes) {
		t.Errorf("the table has %d modes, want %d", len(rows)-1, len(tool.Modes))
	}
}

func modeTable(t *testing.T) [][]string {
	f, err := os.Open("testdata/modes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func rulesWith(e Effect, rule string) permission.Rules {
	switch e {
	case EffectDeny:
		return permission.Rules{Deny: []string{rule}}
	case EffectAsk:
		return permission.Rules{Ask: []string{rule}}
	}
	return permission.Rules{Allow: []string{rule}}
}

func modeCall(t *testing.T, mode tool.Mode, column string) *tool.Call {
	switch column {
	case "read", "read relaxed":
		return fileCall(t, mode, "Read", "/src/a")
	case "edit":
		return fileCall(t, mode, "Edit", "/src/a")
	case "edit outside":
		return fileCall(t, mode, "Edit", "/tmp/a")
	case "destructive":
		return bash(t, mode, "ls")
	}
	return newCall(t, mode, "Todo", map[string]any{})
}

func TestP01_CX32_OtherModesDeny(t *testing.T) {
	e := newEngine(t, Options{Rules: permission.Rules{Allow: []string{"Todo"}}})
	for _, mode := range []tool.Mode{"", "Default", "askForPermission", "bypasspermissions"} {
		if mode.Valid() {
			t.Errorf("mode %q is valid", mode)
		}
		d := decide(t, e, newCall(t, mode, "Todo", map[string]any{}))
		if d.Verdict != tool.Deny || d.By != tool.ByCore || d.Reasons[0].Rule != "core.mode" {
			t.Errorf("mode %q: %+v, want a deny by core.mode", mode, d)
		}
	}
}

// TestP25_CX38_OnlyTheModesQuestionIsMarked: autoAllowBashIfSandboxed, hooks and
// grants answer what the mode asks; what a rule asks they must not.
func TestP25_CX38_OnlyTheModesQuestionIsMarked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules permission.Rules
		line  string
		want  tool.By
	}{
		{"the mode", permission.Rules{}, "ls", tool.ByMode},
		{"a permission rule", permission.Rules{Ask: []string{"Bash(ls)"}}, "ls", tool.ByRule},
		{"the profile", permission.Rules{}, "git push -f", tool.ByRule},
		{"the profile, whatever is allowed", permission.Rules{Allow: []string{"Bash"}}, "git push -f", tool.ByRule},
	} {
		d := decide(t, newEngine(t, Options{Rules: tt.rules}), bash(t, tool.ModeDefault, tt.line))
		if d.Verdict != tool.Ask || d.By != tt.want {
			t.Errorf("%s: %s by %s, want ask by %s", tt.name, d.Verdict, d.By, tt.want)
		}
	}
}
