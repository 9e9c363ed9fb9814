package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/replay"
)

// What is left out of a report is counted in it, with the reason.
func TestAReportSaysWhatItLeavesOut(t *testing.T) {
	long := strings.Repeat("é", 101)
	flips := make([]replay.Flip, shownFlips+2)
	for i := range flips {
		flips[i].What = fmt.Sprintf("flip %d.", i)
	}
	flips[0].What = long
	for _, tt := range []struct {
		name  string
		print func(w io.Writer)
		want  []string
		not   string
	}{
		{
			"more flips than are named", func(w io.Writer) {
				PrintReplay(w, replay.Report{Flips: flips}, "alike", false)
			},
			[]string{"flip 19.\n… and 2 more; --all names them\n", "  " + strings.Repeat("é", 99) + "…\n"},
			"flip 20.",
		},
		{
			"all flips", func(w io.Writer) { PrintReplay(w, replay.Report{Flips: flips}, "alike", true) },
			[]string{"flip 21.\n"},
			"--all",
		},
		{
			"calls that cannot be judged", func(w io.Writer) {
				unknown := []replay.Unknown{{Why: "masked", Calls: 3}, {Why: "gone", Calls: 1}}
				PrintReplay(w, replay.Report{Unknown: unknown}, "alike", false)
			},
			[]string{"\nnot judged again, because the answer would be a guess:\n      3  masked\n      1  gone\n"},
			"--all",
		},
		{
			"a difference without recorded calls", func(w io.Writer) {
				Difference{Note: "none is recorded"}.Print(w, false)
			},
			[]string{"no recorded call was compared: none is recorded\n"},
			"judged by",
		},
		{
			"a shadow that is over", func(w io.Writer) {
				PrintShadow(w, policy.ShadowReport{
					Missed: 2, Errors: []policy.ShadowError{{Why: "too slow", Calls: 4}}, Total: 5,
					Differences: make([]policy.Difference, 2),
				})
			},
			[]string{
				"no policies judge in the shadow now\n", "      2  missed: too many calls waited for it\n",
				"      4  not compared: too slow\n", "\n… and 3 older ones\n",
			},
			"judges in",
		},
		{
			"a rule for more than was asked", func(w io.Writer) {
				PrintSuggested(w, replay.Suggested{Suggestions: []replay.Suggestion{{
					Approved: true, Questions: 2, By: []string{"uid:1"}, Disable: "developer.x", File: "x.rego",
					Rego: "package x\n", Answered: 2, Others: 1, Such: []string{"make\nall"},
				}}}, "7d")
			},
			[]string{
				"\n2 calls allowed by uid:1, such as: \n", "\n  disable: [developer.x]\n\nin x.rego, in a directory",
				"policy.dirs:\n\npackage x\n", "1 recorded call judged otherwise as well, such as:\n  make all\n",
			},
			"no other recorded call",
		},
		{
			"what commands do elsewhere", func(w io.Writer) {
				printEffects(w, json.RawMessage(`{"commands": [
					{"deletes": [{"path": "/a", "names": ["*.go", "b"]}, {"raw": "$x", "many": true}],
					 "runs_text": [{"from": "a pipe", "does": "reads", "part": ""}]}],
					"paths": [{"loses": [{"path": "/w/f"}]}]}`))
			},
			[]string{
				"  deletes   /a, named *.go, b\n", "  deletes   $x, many files\n",
				"  runs      code from a pipe reads\n",
				"  loses     /w/f, of which git has no copy\n",
			},
			"renames",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			tt.print(&b)
			for _, want := range tt.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("it lacks %q:\n%s", want, b.String())
				}
			}
			if strings.Contains(b.String(), tt.not) {
				t.Errorf("it has %q:\n%s", tt.not, b.String())
			}
		})
	}
}

// Without records the policies are compared all the same; any other failure is one.
func TestWithoutRecordsADifferenceHasANote(t *testing.T) {
	broken := errors.New("the disk is broken")
	for _, tt := range []struct {
		fails error
		note  string
		want  error
	}{
		{&tool.Error{Code: "no_records", Msg: "no calls are recorded"}, "no calls are recorded", nil},
		{broken, "", broken},
	} {
		var d Difference
		err := d.Compare(t.Context(), policy.Options{}, policy.Options{}, time.Time{},
			func(context.Context) (policy.Records, error) { return policy.Records{}, tt.fails })
		if d.Note != tt.note || !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%v: got note %q and %v", tt.fails, d.Note, err)
		}
	}
}
