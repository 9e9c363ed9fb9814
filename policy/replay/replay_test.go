package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/policy/recent"
	"github.com/sandboxd/sandboxd/policy/replay"
)

// Example judges two recorded calls by other rules.
func Example() {
	ctx := context.Background()
	d, close := daemonWith(policy.Options{})
	defer close()
	d.run("git status")
	d.run("git push origin main")
	other, err := policy.New(ctx, policy.Options{Rules: permission.Rules{Deny: []string{"Bash(git push *)"}}})
	if err != nil {
		panic(err)
	}
	report, err := replay.Run{Now: other.Judge()}.Of(ctx, d.records())
	if err != nil {
		panic(err)
	}
	for _, f := range report.Flips {
		fmt.Println(f.Words())
	}
	// Output:
	// Bash git push origin main: allow by floor:autoAllowBashIfSandboxed, now deny by deny Bash(git push *)
}

// world is what a daemon has: policies, counts and what it keeps. Programs run confined.
type world struct {
	engine *policy.Engine
	counts *recent.Counter
	kept   *policy.Decisions
	db     *store.DB
	n      int
	secret string // is redacted

	unconfined bool // so that modes ask

	last, ctx context.Context // of the newest call, and of one that waits
}

func daemonWith(o policy.Options) (*world, func()) {
	w := &world{secret: "hunter2"}
	var err error
	if w.db, err = store.Open(context.Background(), store.Options{Path: ":memory:"}, policy.Schema()); err != nil {
		panic(err)
	}
	w.restart(o)
	return w, func() { w.kept.Close(); w.db.Close() }
}

// restart begins anew over the same database.
func (w *world) restart(o policy.Options) {
	if w.kept != nil {
		w.kept.Close()
	}
	w.counts = recent.New(time.Now)
	o.Recent, o.Deadline = w.counts, time.Minute
	var err error
	if w.engine, err = policy.New(context.Background(), o); err != nil {
		panic(err)
	}
	w.kept = policy.NewDecisions(w.db, policy.DecisionOptions{
		Keep: 14 * 24 * time.Hour, Redact: func(s string) string { return strings.ReplaceAll(s, w.secret, "[REDACTED]") },
	})
}

func (w *world) records() policy.Records {
	w.kept.Flush()
	return w.kept.Records()
}

// run judges a command line of the account a and ends it at once.
func (w *world) run(line string) *tool.Call {
	c, end := w.begin(line)
	end()
	return c
}

// begin judges a command line; end is its end.
func (w *world) begin(line string) (c *tool.Call, end func()) {
	w.n++
	args, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		panic(err)
	}
	c = &tool.Call{
		ID:      "call_" + strconv.Itoa(w.n),
		Request: tool.Request{Tool: "Bash"},
		Target: tool.Target{
			Session: tool.Session{
				ID: "s1", Account: "a", Dir: "/src", Home: "/home/u", Mode: tool.ModeAuto,
				Sandbox: &guard.Settings{AllowedWritePaths: []string{"/src"}, AutoAllowBashIfSandboxed: true},
			},
		},
		In:        tool.In{Args: args},
		Judgement: tool.Judgement{Beside: tool.Beside{Confined: !w.unconfined}},
	}
	if err := facts().Facts(context.Background(), c); err != nil {
		panic(err)
	}
	c.Result.Status = tool.StatusSuccess
	ctx := w.kept.Follow(context.Background())
	w.judge(ctx, c)
	w.last = ctx
	return c, func() {
		if c.Decision.Verdict != tool.Allow && !c.Approved() {
			c.Result.Status = tool.StatusError
		}
		w.counts.End(c)
		w.kept.Judged(ctx, c)
	}
}

// facts finds what a call of a built-in tool would do.
var facts = sync.OnceValue(func() pipeline.Options {
	r := catalog.NewRegistry(tools.Groups()...)
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	return pipeline.Options{Tools: r, Workspaces: tool.Workspace{}}
})

func (w *world) judge(ctx context.Context, c *tool.Call) {
	d, err := w.engine.Decide(ctx, c)
	if err != nil {
		panic(err)
	}
	c.Decision = d.Beside(c.Beside, c.Spec.Name, c.Session.Mode)
}

// judgeOf loads policies: text of one file, or permission rules alone.
func judgeOf(t *testing.T, o policy.Options, texts ...string) policy.Judge {
	t.Helper()
	o.Deadline = time.Minute
	o.Dirs = append(o.Dirs, dirOf(t, texts...)...)
	e, err := policy.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e.Judge()
}

func dirOf(t testing.TB, texts ...string) []string {
	t.Helper()
	if len(texts) == 0 {
		return nil
	}
	dir := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".rego"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{dir}
}

// quota is a policy that lets n pushes of an account pass in an hour.
func quota(n int) string {
	return `package sandboxd.policies.acme.quota

findings contains {"id": "acme.push", "effect": "count", "message": "a push"} if "git push" in input.starts

findings contains {"id": "acme.quota", "effect": "deny", "message": "too many"} if {
	"git push" in input.starts
	input.recent.account.hour.rules["acme.push"] >= ` + strconv.Itoa(n) + `
}
`
}

// inBubble runs f where time passes at once, with a daemon.
func inBubble(t *testing.T, o policy.Options, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, close := daemonWith(o)
		defer close()
		f(t, w)
	})
}

func (w *world) replay(t *testing.T, r replay.Run) replay.Report {
	t.Helper()
	report, err := r.Of(t.Context(), w.records())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// flipped are the calls that flip, as "command: verdict".
func flipped(r replay.Report) []string {
	out := []string{}
	for _, f := range r.Flips {
		out = append(out, f.What+": "+f.Now.Verdict.String())
	}
	return out
}

func TestFlipsAreCountedByTheRuleThatMakesThem(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		for _, line := range []string{"ls", "git push", "git push -f", "make", "git push origin x"} {
			w.run(line)
			time.Sleep(time.Second)
		}
		got := w.replay(t, replay.Run{Now: judgeOf(t, policy.Options{
			Rules:   permission.Rules{Deny: []string{"Bash(make)"}, Ask: []string{"Bash(git push *)"}},
			Disable: []string{"developer.git.force_push"},
		})})
		if got.Calls != 5 || got.Tighter != 3 || got.Looser != 0 || len(got.Unknown) != 0 {
			t.Errorf("%+v", got)
		}
		want := []replay.Count{
			{Rule: "ask Bash(git push *)", Was: tool.Allow, Now: tool.Ask, Calls: 2},
			{Rule: "deny Bash(make)", Was: tool.Allow, Now: tool.Deny, Calls: 1},
		}
		if !slices.Equal(got.Rules, want) {
			t.Errorf("rules %+v, want %+v", got.Rules, want)
		}
		loose := w.replay(t, replay.Run{Now: judgeOf(t, policy.Options{Disable: []string{"developer.git.force_push"}})})
		want = []replay.Count{{Rule: "developer.git.force_push", Was: tool.Ask, Now: tool.Allow, Calls: 1}}
		if loose.Looser != 1 || loose.Tighter != 0 || !slices.Equal(loose.Rules, want) {
			t.Errorf("looser: %+v", loose)
		}
	})
}

// A flip says which call it was, and what decided before and now.
func TestAFlipNamesTheCall(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		at := time.Now()
		w.run("make")
		now := judgeOf(t, policy.Options{Rules: permission.Rules{Deny: []string{"Bash(make)"}}})
		got := w.replay(t, replay.Run{Now: now})
		if len(got.Flips) != 1 {
			t.Fatalf("%+v", got)
		}
		f := got.Flips[0]
		want := replay.Flip{
			CallID: "call_1", At: f.At, Account: "a", Session: "s1", Tool: "Bash", What: "make",
			Was: replay.Side{Verdict: tool.Allow, Rule: "floor:autoAllowBashIfSandboxed"},
			Now: replay.Side{Verdict: tool.Deny, Rule: "deny Bash(make)"},
		}
		if f != want || !f.At.Equal(at) || got.Now != now.Revision() || got.Was != "" {
			t.Errorf("got %+v, want %+v at %s", got, want, at)
		}
	})
}

// What the settings refused and what hooks said holds for other policies too.
func TestWhatOthersSaidHolds(t *testing.T) {
	inBubble(t, policy.Options{Rules: permission.Rules{Deny: []string{"Bash(git *)"}}}, func(t *testing.T, w *world) {
		for i, b := range []tool.Beside{
			{Confined: true},
			{Refused: []tool.Refused{{Reason: tool.Reason{Rule: "floor:deniedPaths"}}}},
			{Refused: []tool.Refused{{Reason: tool.Reason{Rule: "floor:opaque"}, Ask: true}}},
			{Confined: true, HookAsks: true},
			{},
			{HookAllow: true},
			{Confined: true, Execution: tool.ExecAskAlways},
		} {
			c, end := w.begin("git log " + strconv.Itoa(i))
			d, err := w.engine.Decide(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			c.Beside = b
			c.Decision = d.Beside(b, "Bash", tool.ModeAuto)
			end()
		}
		got := w.replay(t, replay.Run{Now: judgeOf(t, policy.Options{})})
		want := []string{
			"git log 0: allow", "git log 2: ask", "git log 3: ask", "git log 4: ask", "git log 5: allow", "git log 6: ask",
		}
		if !slices.Equal(flipped(got), want) {
			t.Errorf("got %q, want %q: the second is refused by the settings, the fifth asked by the mode", flipped(got), want)
		}
	})
}

// Rules that count see what ran before each call, with the findings of the policies that
// judge now, whether those of then counted or not.
func TestRulesThatCountSeeWhatRan(t *testing.T) {
	for name, then := range map[string][]string{"nobody counted": nil, "others counted": {quota(100)}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, policy.Options{Dirs: dirOf(t, then...)}, func(t *testing.T, w *world) {
				for i := range 4 {
					w.run("git push origin " + strconv.Itoa(i))
					w.run("ls")
					time.Sleep(20 * time.Minute)
				}
				// Within an hour of the fourth are the second and the third, and the first up to 5
				// minutes later.
				got := w.replay(t, replay.Run{Now: judgeOf(t, policy.Options{}, quota(2))})
				want := []string{"git push origin 2: deny", "git push origin 3: deny"}
				if !slices.Equal(flipped(got), want) || len(got.Unknown) > 0 {
					t.Errorf("got %q, %v, want %q", flipped(got), got.Unknown, want)
				}
			})
		})
	}
}

// What rules would have counted of a call is not known if canUseTool was not asked about it: calls behind it, whose
// rules count, are unknown too.
func TestACallThatCannotBeJudgedIsNotCounted(t *testing.T) {
	asked := policy.Options{CanUseTool: func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
		return nil, nil
	}}
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		w.run("git push one")
		w.restart(asked)
		w.run("git push two")
		got := w.replay(t, replay.Run{Now: judgeOf(t, asked, quota(1))})
		var why []string
		for _, u := range got.Unknown {
			why = append(why, fmt.Sprint(u.Calls, " ", u.Why))
		}
		slices.Sort(why)
		want := []string{"1 its rules count calls that cannot be judged again", "1 policy.canUseTool was not asked about it"}
		if len(got.Flips) != 0 || !slices.Equal(why, want) {
			t.Errorf("flips %+v, unknown %q, want %q", got.Flips, why, want)
		}
	})
}

// The same policies flip nothing, with counts, denials, waiting and calls at the same time.
func TestTheSamePoliciesFlipNothing(t *testing.T) {
	o := policy.Options{Dirs: dirOf(t, quota(3))}
	inBubble(t, o, func(t *testing.T, w *world) {
		var ends []func()
		for i := range 40 {
			_, end := w.begin([]string{"git push", "git push -f", "ls", "git push; git push"}[i%4])
			ends = append(ends, end)
			time.Sleep(time.Duration(i*i%17) * time.Minute)
			if i%3 == 2 {
				for _, end := range slices.Backward(ends) {
					end()
				}
				ends = nil
			}
		}
		for _, end := range ends {
			end()
		}
		got := w.replay(t, replay.Run{Now: judgeOf(t, o)})
		if got.Calls != 40 || len(got.Flips)+len(got.Unknown) > 0 {
			t.Errorf("%d calls, flips %+v, unknown %+v", got.Calls, got.Flips, got.Unknown)
		}
		both := judgeOf(t, o)
		if got := w.replay(t, replay.Run{Was: &both, Now: judgeOf(t, o)}); got.Calls != 40 || len(got.Flips) > 0 {
			t.Errorf("by two judges: %+v", got)
		}
	})
}

// A call that waits for a person is counted from when it was asked about, and judged as it was
// last.
func TestACallThatWaitsIsCountedMeanwhile(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		c, end := w.begin("git push -f")
		w.ctx = w.last
		time.Sleep(time.Minute)
		w.run("git push origin between")
		time.Sleep(time.Minute)
		c.Approval = &tool.Approval{ID: "apr_1", Approved: true}
		w.judge(w.ctx, c) // again after the answer, as the request path does
		end()
		got := w.replay(t, replay.Run{Now: judgeOf(t, policy.Options{}, quota(1))})
		// The first waits while the second is judged; the second ran before the first is judged again.
		if want := []string{"git push origin between: deny", "git push -f: deny"}; !slices.Equal(flipped(got), want) {
			t.Errorf("got %q, want %q", flipped(got), want)
		}
	})
}

// Where it is not known what ran before, a rule that counts gives no answer.
func TestCountsAreNeverGuessed(t *testing.T) {
	const lost = "its rules count calls that"
	for _, tt := range []struct {
		name  string
		run   func(w *world)
		since time.Duration // before the end
		last  int
		want  string // the flips
		lost  int
	}{
		{name: "all is known", run: func(w *world) {
			w.run("git push one")
			w.run("git push two")
		}, want: "git push two: deny"},
		{name: "a restart begins at zero", run: func(w *world) {
			w.run("git push one")
			time.Sleep(time.Minute)
			w.restart(policy.Options{})
			w.run("git push two")
		}},
		{name: "one before is masked", run: func(w *world) {
			w.run("git push hunter2")
			w.run("git push two")
			w.run("ls")
		}, lost: 1},
		{name: "one before is masked, and was denied", run: func(w *world) {
			c, end := w.begin("git push hunter2")
			c.Decision.Verdict, c.Result.Status = tool.Deny, tool.StatusError
			end()
			w.run("git push two")
		}},
		{name: "long ago", run: func(w *world) {
			w.run("git push hunter2")
			time.Sleep(27 * time.Hour)
			w.run("git push two")
		}},
		{name: "nothing was kept for a while", run: func(w *world) {
			w.run("git push one")
			w.kept.Keep(0)
			w.run("git push two")
			time.Sleep(time.Second)
			w.kept.Keep(time.Hour)
			w.run("git push three")
		}, lost: 1},
		{name: "older calls were dropped", run: func(w *world) {
			w.run("git push one")
			time.Sleep(20 * time.Hour)
			w.kept.Keep(10 * time.Hour)
			time.Sleep(2 * time.Hour) // they are dropped once an hour
			w.run("git push two")
		}, lost: 1},
		{name: "calls before the window count", run: func(w *world) {
			w.run("git push one")
			time.Sleep(30 * time.Minute)
			w.run("git push two")
		}, since: time.Minute, want: "git push two: deny"},
		{name: "only the newest are looked at", run: func(w *world) {
			w.run("git push one")
			time.Sleep(time.Second)
			w.run("git push two")
			time.Sleep(time.Second)
			w.run("ls")
		}, last: 2, lost: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
				tt.run(w)
				r := replay.Run{Now: judgeOf(t, policy.Options{}, quota(1)), Last: tt.last}
				if tt.since > 0 {
					r.Since = time.Now().Add(-tt.since)
				}
				got := w.replay(t, r)
				n := 0
				for _, u := range got.Unknown {
					if strings.HasPrefix(u.Why, lost) {
						n += u.Calls
					}
				}
				if strings.Join(flipped(got), ", ") != tt.want || n != tt.lost {
					t.Errorf("got %q, unknown %v, want %q and %d unknown", flipped(got), got.Unknown, tt.want, tt.lost)
				}
			})
		})
	}
}

// Dry runs and explanations are no calls.
func TestQuestionsAreLeftOut(t *testing.T) {
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		c, end := w.begin("git push one")
		c.Request.Hypothetical = true
		end()
		w.run("git push two")
		got := w.replay(t, replay.Run{Now: judgeOf(t, policy.Options{}, quota(1))})
		if got.Questions != 1 || got.Calls != 1 || len(got.Flips) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A call that one judge can judge and the other cannot is lost for a comparison.
func TestACallThatOnlyOneCanJudgeIsLost(t *testing.T) {
	const condition = `package sandboxd.policies.acme.c

findings contains {"id": "acme.c", "effect": "ask", "message": "m", "obligations": {"no_network": true}}
`
	inBubble(t, policy.Options{}, func(t *testing.T, w *world) {
		w.run("ls")
		was, now := judgeOf(t, policy.Options{}), judgeOf(t, policy.Options{}, condition)
		if got := w.replay(t, replay.Run{Was: &was, Now: now}); got.Lost != 1 || got.Calls != 0 || len(got.Unknown) != 1 {
			t.Errorf("now it cannot: %+v", got)
		}
		if got := w.replay(t, replay.Run{Was: &now, Now: was}); got.Lost != 0 || len(got.Unknown) != 1 {
			t.Errorf("then it could not: %+v", got)
		}
	})
}

// A limit of time that is dropped or raised lets a call do more.
func TestALimitOfTimeThatIsRaisedIsLooser(t *testing.T) {
	of := func(seconds int) tool.Decision {
		d := tool.Decision{Verdict: tool.Allow}
		d.Obligations.WallSeconds = seconds
		return d
	}
	for _, tt := range []struct {
		was, now       tool.Decision
		differ, looser bool
	}{
		{of(5), of(5), false, false},
		{of(5), of(0), true, true},
		{of(5), of(6), true, true},
		{of(0), of(5), true, false},
		{of(6), of(5), true, false},
		{tool.Decision{Verdict: tool.Deny}, of(5), true, true},
		{of(5), tool.Decision{Verdict: tool.Ask}, true, false},
	} {
		if differ, looser := policy.Differ(tt.was, tt.now); differ != tt.differ || looser != tt.looser {
			t.Errorf("%+v, %+v: %v, %v", tt.was, tt.now, differ, looser)
		}
	}
}
