package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/metrics"
)

func scrape(t *testing.T, m *metrics.Set) metrics.Totals {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	totals, err := metrics.Read(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

func TestTotalsAreReadFromAScrape(t *testing.T) {
	m := metrics.New("v1")
	m.SetTools([]string{"Bash", "Read"})
	done := func(name string, v tool.Verdict, s tool.Status, took time.Duration) {
		m.Done(&tool.Call{
			Request:   tool.Request{Tool: name},
			Started:   time.Now().Add(-took),
			Judgement: tool.Judgement{Decision: tool.Decision{Verdict: v, By: tool.ByCore}},
			Result:    tool.Result{Status: s},
		})
	}
	done("Bash", tool.Allow, tool.StatusSuccess, time.Second)
	before := scrape(t, m)
	if before.Calls != 1 || before.Failed != 0 || before.Verdicts["allow"] != 1 || before.Median() < time.Second {
		t.Errorf("one call: %+v, median %v", before, before.Median())
	}
	if before.Memory <= 0 {
		t.Errorf("the memory of the process is %v", before.Memory)
	}
	done("Read", tool.Deny, tool.StatusExecutionRejected, 0)
	done("other", tool.Allow, tool.StatusSuccess, 0)
	done("Bash", tool.Allow, tool.StatusSuccess, time.Millisecond)
	later := scrape(t, m).Since(before)
	if later.Calls != 3 || later.Failed != 1 || later.Verdicts["allow"] != 2 || later.Verdicts["deny"] != 1 {
		t.Errorf("three more: %+v", later)
	}
	if later.Median() == 0 || later.Median() > 100*time.Millisecond {
		t.Errorf("median of the three is %v", later.Median())
	}
	if none := before.Since(before); none.Median() != 0 || none.Calls != 0 {
		t.Errorf("no call since: %+v", none)
	}
}

func TestAScrapeThatIsNoneIsAnError(t *testing.T) {
	if _, err := metrics.Read(strings.NewReader("sandboxd_requests_total{ 1\n")); err == nil {
		t.Error("it was read")
	}
}
