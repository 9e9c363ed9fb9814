package replay_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/policy/replay"
)

// asked is a call about which somebody was asked.
func (w *world) asked(line string, approved bool) *tool.Call {
	c, end := w.begin(line)
	if c.Decision.Verdict != tool.Ask {
		panic(line + " is not asked about")
	}
	c.Approval = &tool.Approval{ID: "apr_" + strconv.Itoa(w.n), Approved: approved, By: "uid:" + strconv.Itoa(w.n%2)}
	end()
	time.Sleep(time.Second)
	return c
}

// suggested is what is proposed with these policies.
func (w *world) suggested(t *testing.T, least int, o policy.Options) replay.Suggested {
	t.Helper()
	o.Deadline = time.Minute
	got, err := replay.Suggest{Least: least, Since: time.Now().Add(-time.Hour), Options: o}.Of(t.Context(), w.records())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// inWords says the suggestions, one line each.
func inWords(s replay.Suggested) []string {
	out := []string{}
	for _, x := range s.Suggestions {
		what := x.List + " " + strings.Join(x.Rules, ", ")
		if x.Rego != "" {
			what = "instead of " + x.Disable
		}
		out = append(out, what+": "+strconv.Itoa(x.Questions)+" questions, "+strconv.Itoa(x.Answered)+" answered, "+
			strconv.Itoa(x.Others)+" others")
	}
	return out
}

func TestTheNarrowestRulesAreProposed(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(w *world)
		want []string
		left string

		confined bool // so that only rules ask
	}{
		{
			name: "the same line",
			run: func(w *world) {
				for range 3 {
					w.asked("make test", true)
				}
				w.run("make install")
			},
			want: []string{"allow Bash(make test): 3 questions, 3 answered, 0 others"},
		},
		{
			name: "lines that begin alike: a rule for them would take options that write or run",
			run: func(w *world) {
				for _, word := range []string{"a", "b", "c"} {
					w.asked("find . -name "+word, true)
					w.asked("git diff "+word, true)
					w.asked("runner start "+word+" sh", true)
				}
			},
			left: "fewer than 3 were answered alike",
		},
		{
			name: "lines that begin alike, which people refused",
			run: func(w *world) {
				for _, to := range []string{"a", "b", "c"} {
					w.asked("scp -q "+to+" host:", false) // nothing but the name is before an option
					w.asked("runner start "+to+" sh", false)
				}
				w.run("runner start d sh")
			},
			want: []string{"deny Bash(runner start *): 3 questions, 3 answered, 1 others"},
			left: "fewer than 3 were answered alike",
		},
		{
			name: "the narrow rule takes its questions from the wide one",
			run: func(w *world) {
				for range 3 {
					w.asked("runner start a", true)
				}
				w.asked("runner start b", true)
				w.asked("runner start c", true)
			},
			want: []string{"allow Bash(runner start a): 3 questions, 3 answered, 0 others"},
			left: "fewer than 3 were answered alike",
		},
		{
			name: "one other answer is enough against it",
			run: func(w *world) {
				for range 3 {
					w.asked("make test", true)
				}
				w.asked("make test", false)
			},
			left: "fewer than 3 were answered alike",
		},
		{
			name: "several commands in a line",
			run: func(w *world) {
				for range 3 {
					w.asked("make a && make b", true)
				}
			},
			want: []string{"allow Bash(make a), Bash(make b): 3 questions, 3 answered, 0 others"},
		},
		{
			name: "several commands in a line that people refused",
			run: func(w *world) {
				for range 3 {
					w.asked("make a && make b", false)
				}
			},
			left: "it is not known which command of the line was refused",
		},
		{
			name: "what people refused",
			run: func(w *world) {
				for _, to := range []string{"a", "b", "c"} {
					w.asked("git push -f origin "+to, false)
				}
			},
			want: []string{"deny Bash(git push -f origin *): 3 questions, 3 answered, 0 others"},
		},
		{
			name: "a rule asked: an exception, for the same directory only",
			run: func(w *world) {
				for range 3 {
					w.asked("git push -f origin topic", true)
				}
				w.asked("git push -f origin main", false)
			},
			confined: true,
			want:     []string{"instead of developer.git.force_push: 3 questions, 3 answered, 0 others"},
			left:     "fewer than 3 were answered alike",
		},
		{
			name: "a rule and the mode asked: an exception from the rule answers nothing",
			run: func(w *world) {
				for range 3 {
					w.asked("git push -f origin topic", true)
				}
			},
			left: "the policies in force answer it already, or something else asks as well",
		},
		{
			name: "words that a rule cannot say",
			run: func(w *world) {
				for range 3 {
					w.asked("echo 'a | b' '*'", true)
					w.asked("echo \"$x\"", true)
				}
			},
			left: "no rule says exactly this call",
		},
		{
			name: "a hook asked",
			run: func(w *world) {
				for range 3 {
					c, end := w.begin("make test")
					c.Beside.HookAsks = true
					w.judge(w.last, c)
					c.Approval = &tool.Approval{ID: "apr_" + strconv.Itoa(w.n), Approved: true}
					end()
				}
			},
			left: "a hook, the tool or the settings ask, which no policy answers",
		},
		{
			name: "answers that are none",
			run: func(w *world) {
				for i := range 9 {
					c, end := w.begin("make test")
					c.Approval = &tool.Approval{ID: []string{"apr_1", "grt_1", "apr_2"}[i%3], Approved: true}
					if i%3 == 2 { // nobody answered
						c.Approval.Approved, c.Approval.Code = false, "approval_timed_out"
					}
					end()
				}
			},
			left: "fewer than 3 were answered alike",
		},
		{
			name: "an answer with other arguments",
			run: func(w *world) {
				for range 3 {
					c, end := w.begin("make test")
					c.Approval = &tool.Approval{ID: "apr_" + strconv.Itoa(w.n), Approved: true, Args: []byte("{}")}
					end()
				}
			},
			left: "the answer came with other arguments",
		},
		{
			name: "a masked call",
			run: func(w *world) {
				for range 3 {
					w.asked("make hunter2", true)
				}
			},
			left: "a part of its input is masked",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
				w.unconfined = !tt.confined
				tt.run(w)
				got := w.suggested(t, 3, policy.Options{})
				if words := inWords(got); !slices.Equal(words, tt.want) && len(words)+len(tt.want) > 0 {
					t.Errorf("got %q, want %q", words, tt.want)
				}
				left := ""
				if len(got.Left) > 0 {
					left = got.Left[0].Why
				}
				if left != tt.left || len(got.Left) > 1 {
					t.Errorf("left %v, want %q", got.Left, tt.left)
				}
			})
		})
	}
}

// A permission rule that asks is the operator's to change.
func TestARuleOfYoursThatAsksIsNotSwitchedOff(t *testing.T) {
	o := policy.Options{Rules: permission.Rules{Ask: []string{"Bash(make *)"}}}
	inBubble(t, o, func(t *testing.T, w *world) {
		for range 3 {
			w.asked("make test", true)
		}
		got := w.suggested(t, 3, o)
		if len(got.Suggestions) != 0 || len(got.Left) != 1 || !strings.HasPrefix(got.Left[0].Why, "a permission rule of yours asks") {
			t.Errorf("%+v", got)
		}
	})
}

// What the policies in force answer already is not proposed.
func TestWhatIsAnsweredAlreadyIsNotProposed(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		w.unconfined = true
		for range 3 {
			w.asked("make test", true)
		}
		for _, least := range []int{0, 3} { // 0 means 1
			got := w.suggested(t, least, policy.Options{Rules: permission.Rules{Allow: []string{"Bash(make *)"}}})
			if got.Questions != 3 || len(got.Suggestions) != 0 || len(got.Left) != 1 || got.Left[0].Calls != 3 {
				t.Errorf("at least %d: %+v", least, got)
			}
		}
	})
}

// Calls before Since are neither questions nor others.
func TestOlderCallsAreNotLookedAt(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		w.unconfined = true
		w.asked("make test", true)
		time.Sleep(2 * time.Hour)
		for range 3 {
			w.asked("make test", true)
		}
		got := inWords(w.suggested(t, 3, policy.Options{}))
		if want := []string{"allow Bash(make test): 3 questions, 3 answered, 0 others"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Lists of an answer are lists, with nothing in them, too.
func TestNothingIsAnEmptyList(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		w.unconfined = true
		got := w.suggested(t, 3, policy.Options{})
		report := w.replay(t, replay.Run{Now: w.engine.Judge()})
		for range 3 {
			w.asked("make test", true)
		}
		one := w.suggested(t, 3, policy.Options{})
		if len(one.Suggestions) != 1 || one.Suggestions[0].Such == nil {
			t.Errorf("a suggestion with no other calls: %+v", one)
		}
		if got.Suggestions == nil || got.Left == nil || report.Rules == nil || report.Flips == nil || report.Unknown == nil {
			t.Errorf("without a call: %+v, %+v", got, report)
		}
	})
}

// A suggestion in Rego is a policy as it is: it loads, it asks about all else, and it says
// what it excepts.
func TestASuggestionInRegoIsAPolicy(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		for range 2 {
			w.asked("git push -f origin topic", true)
		}
		got := w.suggested(t, 2, policy.Options{})
		if len(got.Suggestions) != 1 {
			t.Fatalf("%+v", got)
		}
		s := got.Suggestions[0]
		if !strings.Contains(s.Rego, `["/src", "git push -f origin topic"]`) || s.File != "git_force_push.rego" ||
			!slices.Equal(s.By, []string{"uid:1", "uid:0"}) {
			t.Errorf("%+v", s)
		}
		if pretty, err := policy.Format(s.File, []byte(s.Rego)); err != nil || string(pretty) != s.Rego {
			t.Errorf("it is not formatted, %v: %s", err, s.Rego)
		}
		o := policy.Options{Disable: []string{s.Disable}, Dirs: dirOf(t, s.Rego)}
		w.restart(o)
		for line, want := range map[string]tool.Verdict{
			"git push -f origin topic": tool.Allow, "git push -f origin main": tool.Ask,
			"git push -f origin topic; git push -f": tool.Ask, "sudo git push -f origin topic": tool.Ask,
			"cd /other && git push -f origin topic": tool.Ask, "GIT_DIR=/x git push -f origin topic": tool.Ask,
			"git -C /x push -f origin topic": tool.Ask,
		} {
			if c := w.run(line); c.Decision.Verdict != want {
				t.Errorf("%s: %+v, want %s", line, c.Decision, want)
			}
		}
	})
}
