package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// ended is data of a tool that ran a program.
type ended string

func (e ended) Ended() (int, string) { return 1, string(e) }

func call(name string, reasons ...tool.Reason) *tool.Call {
	c := tool.NewCall(tool.Request{Tool: name, Session: "s-" + name, Account: "a-" + name})
	c.Result.Status = tool.StatusSuccess
	c.Decision = tool.Decision{Verdict: tool.Allow, By: tool.ByMode, Reasons: reasons}
	c.Output.Data = ended("exited")
	c.Approval = &tool.Approval{Asked: time.Now(), Answered: time.Now().Add(time.Second)}
	return c
}

// exercise touches every metric.
func exercise(s *Set) {
	s.SetTools([]string{"Bash", "Read"})
	s.SetRules([]string{"git.force_push"})
	s.SetHooks([]string{"guard"})
	c := call("Bash", tool.Reason{Rule: "mode:auto"})
	c.Network.Add(egress.Row{Host: "a.test", Port: 443, Protocol: "tls", Via: "transparent", Verdict: "allow", Count: 3})
	c.Network.Add(egress.Row{Host: "b.test", Port: 443, Protocol: "spx", Via: "socks5", Verdict: "deny", Count: 1})
	s.Done(c)
	s.Stage("judge", time.Millisecond)
	s.Hook("guard", time.Millisecond)
	s.Cache(true)
	s.Cache(false)
	s.ApprovalsPending(3)
	s.Reloaded(nil)
	s.Reloaded(errors.New("bad policy"))
	s.Sandbox(sandbox.Report{
		Layers: []string{"userns", "landlock:7"}, Missing: []string{"cgroup2: not delegated to uid 1000"},
	})
	s.RoleSplit(false)
}

func scrape(t *testing.T, s *Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestNamesFollowTheConventions(t *testing.T) {
	s := New("v1")
	exercise(s)
	problems, err := testutil.GatherAndLint(s.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestWhatIsCounted(t *testing.T) {
	s := New("v1")
	exercise(s)
	for _, stage := range []string{"hold", "job", "settle"} {
		s.Stage(stage, 0)
	}
	text := scrape(t, s)
	for _, want := range []string{
		`sandboxd_requests_total{outcome="SUCCESS",tool="Bash"} 1`,
		`sandboxd_request_duration_seconds_count{tool="Bash"} 1`,
		`sandboxd_stage_duration_seconds_count{stage="judge"} 1`,
		`sandboxd_stage_duration_seconds_count{stage="hold"} 1`,
		`sandboxd_stage_duration_seconds_count{stage="job"} 1`,
		`sandboxd_stage_duration_seconds_count{stage="settle"} 1`,
		`sandboxd_policy_decisions_total{rule="mode:auto",verdict="allow"} 1`,
		`sandboxd_policy_reloads_total{result="error"} 1`, `sandboxd_policy_reloads_total{result="success"} 1`,
		`sandboxd_policy_last_reload_success_timestamp_seconds `,
		`sandboxd_approvals_pending 3`,
		`sandboxd_approval_wait_seconds_count 1`,
		`sandboxd_sandbox_exits_total{backend="linux",reason="exited"} 1`,
		`sandboxd_sandbox_feature_info{feature="landlock",state="active"} 1`,
		`sandboxd_sandbox_feature_info{feature="cgroup2",state="missing"} 1`,
		`sandboxd_cache_requests_total{result="hit"} 1`,
		`sandboxd_hook_duration_seconds_count{hook="guard"} 1`,
		`sandboxd_role_split_info{state="advisory"} 1`,
		`sandboxd_network_connections_total{protocol="tls",verdict="allow",via="transparent"} 3`,
		`sandboxd_network_connections_total{protocol="other",verdict="deny",via="socks5"} 1`,
		`sandboxd_build_info{version="v1"} 1`,
		`go_goroutines `,
		`process_open_fds `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestConfigurationRolesAndGauges(t *testing.T) {
	s := New("v1")
	s.ConfigLoaded(errors.New("bad file"))
	s.Reloaded(errors.New("bad policy"))
	const never = "_last_reload_success_timestamp_seconds 0\n"
	for _, what := range []string{"sandboxd_config", "sandboxd_policy"} {
		if !strings.Contains(scrape(t, s), what+never) {
			t.Errorf("a reload that failed sets the time of %s", what)
		}
	}
	s.ConfigLoaded(nil)
	s.Reloaded(nil)
	for _, what := range []string{"sandboxd_config", "sandboxd_policy"} {
		if strings.Contains(scrape(t, s), what+never) {
			t.Errorf("a reload does not set the time of %s", what)
		}
	}
	s.RoleSplit(false)
	s.RoleSplit(true)
	s.Gauge("notes", "How many notes there are.", func() float64 { return 4 })
	use := budget.Use{Bytes: 9, Connections: 2, Requests: 1}
	use.Refused[0] = 5
	s.Budget(func() budget.Use { return use })
	disk := diskspace.Use{Free: 11, Reserve: 12, Low: true, Files: 13, Values: 14, Full: 15}
	disk.Refused[1] = 16
	s.Disk(func() diskspace.Use { return disk })
	s.Shadow("looser")
	s.Shadow("a result that there is not")
	text := scrape(t, s)
	for _, want := range []string{
		`sandboxd_config_reloads_total{result="success"} 1`, `sandboxd_config_reloads_total{result="error"} 1`,
		`sandboxd_role_split_info{state="enforced"} 1`, "sandboxd_notes 4", "sandboxd_budget_bytes 9",
		"sandboxd_budget_connections 2", "sandboxd_budget_requests 1",
		`sandboxd_budget_refused_total{reason="` + budget.Reasons[0] + `"} 5`,
		"sandboxd_disk_free_bytes 11", "sandboxd_disk_reserve_bytes 12", "sandboxd_disk_low 1",
		"sandboxd_disk_files_bytes 13", "sandboxd_disk_values_bytes 14", "sandboxd_disk_full_accounts 15",
		`sandboxd_disk_refused_total{reason="account"} 16`, `{result="looser"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, `state="advisory"`) {
		t.Error("two states of the role split at once")
	}
	if strings.Contains(text, "a result that there is not") {
		t.Error("a label is as it was given")
	}
	if disk.Low = false; !strings.Contains(scrape(t, s), "sandboxd_disk_low 0") {
		t.Error("the reserve is touched for ever")
	}
}

func TestTheLabelsAreThoseOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([a-z, ]*) \\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		labels := strings.Split(m[2], ", ")
		slices.Sort(labels)
		rows[m[1]] = strings.TrimSpace(strings.Join(labels, " "))
	}
	s := New("v1")
	exercise(s)
	s.ConfigLoaded(nil)
	s.Shadow("looser")
	s.Budget(func() budget.Use { return budget.Use{} })
	s.Disk(func() diskspace.Use { return diskspace.Use{} })
	sample := regexp.MustCompile(`(?m)^(sandboxd_\w+?)(?:_bucket|_sum|_count)?(\{.*\})? `)
	seen := map[string]bool{}
	for _, m := range sample.FindAllStringSubmatch(scrape(t, s), -1) {
		var labels []string
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		slices.Sort(labels)
		seen[m[1]] = true
		if got := strings.Join(labels, " "); got != rows[m[1]] {
			t.Errorf("%s has the labels %q, and in docs/metrics.md %q", m[1], got, rows[m[1]])
		}
	}
	if len(seen) < 25 {
		t.Errorf("only %d series have a sample", len(seen))
	}
}

// TestEachMetricSaysWhatItIs, and histograms have the fine buckets of scrapers that know them.
func TestEachMetricSaysWhatItIs(t *testing.T) {
	s := New("v1")
	exercise(s)
	s.ConfigLoaded(nil)
	s.Shadow("looser")
	s.Budget(func() budget.Use { return budget.Use{} })
	s.Disk(func() diskspace.Use { return diskspace.Use{} })
	all, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	histograms := 0
	for _, m := range all {
		if !strings.Contains(m.GetHelp(), " ") {
			t.Errorf("%s says %q of itself", m.GetName(), m.GetHelp())
		}
		if h := m.GetMetric()[0].GetHistogram(); h != nil && strings.HasPrefix(m.GetName(), "sandboxd_") {
			histograms++
			if h.GetSchema() != 3 || len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) == 0 { // 2^(1/8) is below 1.1
				t.Errorf("%s has the schema %d, and %d buckets of the other kind", m.GetName(), h.GetSchema(), len(h.GetBucket()))
			}
		}
	}
	if histograms != 4 {
		t.Errorf("%d histograms", histograms)
	}
}

// TestNothingOnASocketMakesSeriesGrow floods every name that others choose.
func TestNothingOnASocketMakesSeriesGrow(t *testing.T) {
	s := New("v1")
	exercise(s)
	hostile := func(i int) {
		x := fmt.Sprintf("/etc/%d\"}\n\xff", i)
		c := call(x, tool.Reason{Rule: "deniedPaths: " + x})
		c.Result.Status = tool.Status(x)
		c.Output.Data = ended(x)
		c.Decision.By = []tool.By{
			tool.ByRule, tool.ByMode, tool.ByFloor, tool.ByHook, tool.ByCore, tool.ByTool, tool.By(x),
		}[i%7]
		s.Done(c)
		s.Stage(x, 0)
		s.Hook(x, 0)
		s.SandboxExit(x, x)
		s.Sandbox(sandbox.Report{Layers: []string{x}, Missing: []string{x + ": " + x}})
	}
	for i := range 14 {
		hostile(i)
	}
	series := func() int {
		n, err := testutil.GatherAndCount(s.registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := series()
	for i := range 2000 {
		hostile(i + 14)
	}
	if after := series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if text := scrape(t, s); strings.Contains(text, "/etc/") {
		t.Error("a label holds a path")
	}
}

func TestSetsOfNamesAreBounded(t *testing.T) {
	s := New("v1")
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("mcp__server__%d", i))
	}
	s.SetTools(many)
	for _, name := range many {
		s.Done(call(name))
	}
	if n, err := testutil.GatherAndCount(s.registry, "sandboxd_requests_total"); err != nil || n != 201 {
		t.Errorf("got %d series, %v, want 200 and that of the others", n, err)
	}
}

func TestSafeForConcurrentUse(t *testing.T) {
	s := New("v1")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				exercise(s)
				_, _ = s.registry.Gather()
			}
		})
	}
	wg.Wait()
}

// TestTheDashboardShowsMetricsThatExist reads every expression of the dashboard.
func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	s := New("v1")
	exercise(s)
	scraped := scrape(t, s)
	var shown []string
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`\b(?:sandboxd|process|go)_[a-z0-9_]+`).FindAllString(target.Expr, -1) {
				if !strings.Contains(scraped, "\n"+name) {
					t.Errorf("panel %q: no metric %q", p.Title, name)
				}
				shown = append(shown, name)
			}
		}
	}
	for _, must := range []string{
		"sandboxd_requests_total", "sandboxd_approvals_pending",
		"sandboxd_policy_decisions_total",
	} {
		if !slices.Contains(shown, must) {
			t.Errorf("the dashboard does not show %s", must)
		}
	}
}

func BenchmarkDone(b *testing.B) {
	s := New("v1")
	s.SetTools([]string{"Bash"})
	c := call("Bash", tool.Reason{Rule: "mode:auto"})
	for b.Loop() {
		s.Done(c)
	}
}

// TestNamesOfClosedSetsHaveALabel: each of them its own.
func TestNamesOfClosedSetsHaveALabel(t *testing.T) {
	s := New("v1")
	reasons := []string{"exited", "signaled", "timed_out", "output", "memory", "processes", "cpu", "file_size", "disk"}
	for _, reason := range reasons {
		s.SandboxExit("linux", reason)
	}
	features := []string{
		"userns", "mountns", "pidns", "ipcns", "netns", "utsns", "cgroupns", "timens", "landlock", "seccomp", "rlimits",
		"cgroup2", "cgroup", "no_new_privs", "capabilities",
	}
	s.Sandbox(sandbox.Report{Layers: features})
	stages := []string{
		"lookup", "resolve", "before", "judge", "approve", "hold", "job", "begin", "run", "settle", "format", "remember",
		"after",
	}
	for _, stage := range stages {
		s.Stage(stage, 0)
	}
	text := scrape(t, s)
	for format, names := range map[string][]string{
		`sandboxd_sandbox_exits_total{backend="linux",reason="%s"} 1`:  reasons,
		`sandboxd_sandbox_feature_info{feature="%s",state="active"} 1`: features,
		`sandboxd_stage_duration_seconds_count{stage="%s"} 1`:          stages,
	} {
		for _, name := range names {
			if want := fmt.Sprintf(format, name); !strings.Contains(text, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
	}
}
