package policy

import (
	"encoding/csv"
	"os"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
)

// modeRows are the requirement of each mode.
var modeRows = map[string]string{
	ModeDefault: "P-02", ModePlan: "P-03", ModeAuto: "P-04",
	ModeAcceptEdits: "P-05", ModeDontAsk: "P-06", ModeBypassPermissions: "P-07",
}

// TestP01_CX33_EveryModeAndEffect reads its expectations from
// testdata/modes.csv, the table that docs/policies.md shows.
func TestP01_CX33_EveryModeAndEffect(t *testing.T) {
	rows := modeTable(t)
	header := rows[0]
	for _, row := range rows[1:] {
		mode := row[0]
		for i, want := range row[1:] {
			column := header[i+1]
			t.Run(modeRows[mode]+" "+mode+"/"+column, func(t *testing.T) {
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
	if len(rows)-1 != len(Modes) {
		t.Errorf("the table has %d modes, want %d", len(rows)-1, len(Modes))
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

func rulesWith(e Effect, rule string) Rules {
	switch e {
	case EffectDeny:
		return Rules{Deny: []string{rule}}
	case EffectAsk:
		return Rules{Ask: []string{rule}}
	}
	return Rules{Allow: []string{rule}}
}

func modeCall(t *testing.T, mode, column string) *tool.Call {
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
	e := newEngine(t, Options{Rules: Rules{Allow: []string{"Todo"}}})
	for _, mode := range []string{"", "Default", "askForPermission", "bypasspermissions"} {
		if ValidMode(mode) {
			t.Errorf("mode %q is valid", mode)
		}
		d := decide(t, e, newCall(t, mode, "Todo", map[string]any{}))
		if d.Verdict != tool.Deny || d.By != tool.ByCore || d.Reasons[0].Rule != "core.mode" {
			t.Errorf("mode %q: %+v, want a deny by core.mode", mode, d)
		}
	}
}

func TestLooserOrdersTheModes(t *testing.T) {
	for i, a := range Modes {
		for j, b := range Modes {
			if got, want := Looser(a, b), i > j; got != want {
				t.Errorf("Looser(%s, %s) = %v, want %v", a, b, got, want)
			}
		}
	}
	if !Looser("x", ModeBypassPermissions) || !Looser("", ModePlan) {
		t.Error("a mode that is not valid must be looser than every limit")
	}
	if !Looser(ModePlan, "x") {
		t.Error("a limit that is not valid must refuse every mode")
	}
}

// TestP25_CX38_OnlyTheModesQuestionIsMarked: autoAllowBashIfSandboxed, hooks and
// grants answer what the mode asks; what a rule asks they must not.
func TestP25_CX38_OnlyTheModesQuestionIsMarked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules Rules
		line  string
		want  tool.By
	}{
		{"the mode", Rules{}, "ls", tool.ByMode},
		{"a permission rule", Rules{Ask: []string{"Bash(ls)"}}, "ls", tool.ByRule},
		{"the profile", Rules{}, "git push -f", tool.ByRule},
		{"the profile, whatever is allowed", Rules{Allow: []string{"Bash"}}, "git push -f", tool.ByRule},
	} {
		d := decide(t, newEngine(t, Options{Rules: tt.rules}), bash(t, ModeDefault, tt.line))
		if d.Verdict != tool.Ask || d.By != tt.want {
			t.Errorf("%s: %s by %s, want ask by %s", tt.name, d.Verdict, d.By, tt.want)
		}
	}
}
