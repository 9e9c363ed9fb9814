package metrics

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Totals holds the counters of a daemon since its start that people look at.
type Totals struct {
	Calls    float64
	Failed   float64            // all that did not end with SUCCESS
	Verdicts map[string]float64 // decisions, by verdict
	Took     []Bucket           // durations of calls, cumulative, the lowest bound first
	Waiting  float64            // questions that wait now
	Memory   float64            // resident bytes of the daemon
}

// Bucket is the number of calls that took no longer than Most seconds.
type Bucket struct{ Most, Calls float64 }

// Read reads the totals from the output of [Set.Handler].
func Read(r io.Reader) (Totals, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return Totals{}, fmt.Errorf("read metrics: %w", err)
	}
	t := Totals{Verdicts: map[string]float64{}}
	for _, m := range families["sandboxd_requests_total"].GetMetric() {
		n := m.GetCounter().GetValue()
		t.Calls += n
		if labelOf(m, "outcome") != "SUCCESS" {
			t.Failed += n
		}
	}
	for _, m := range families["sandboxd_policy_decisions_total"].GetMetric() {
		t.Verdicts[labelOf(m, "verdict")] += m.GetCounter().GetValue()
	}
	for _, m := range families["sandboxd_request_duration_seconds"].GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			t.add(Bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
		}
	}
	for _, m := range families["sandboxd_approvals_pending"].GetMetric() {
		t.Waiting = m.GetGauge().GetValue()
	}
	for _, m := range families["process_resident_memory_bytes"].GetMetric() {
		t.Memory = m.GetGauge().GetValue()
	}
	return t, nil
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// add adds a bucket of one tool to the bucket of all tools.
func (t *Totals) add(b Bucket) {
	i, found := slices.BinarySearchFunc(t.Took, b, func(x, y Bucket) int { return cmp.Compare(x.Most, y.Most) })
	if !found {
		t.Took = slices.Insert(t.Took, i, Bucket{Most: b.Most})
	}
	t.Took[i].Calls += b.Calls
}

// Since returns what was counted since an earlier time of the same daemon.
func (t Totals) Since(earlier Totals) Totals {
	d := t
	d.Calls, d.Failed = t.Calls-earlier.Calls, t.Failed-earlier.Failed
	d.Verdicts = map[string]float64{}
	for verdict, n := range t.Verdicts {
		d.Verdicts[verdict] = n - earlier.Verdicts[verdict]
	}
	d.Took = slices.Clone(t.Took)
	for i := range d.Took {
		if i < len(earlier.Took) && earlier.Took[i].Most == d.Took[i].Most {
			d.Took[i].Calls -= earlier.Took[i].Calls
		}
	}
	return d
}

// Median returns the bound of the bucket that holds the median duration of calls, so it is at most four times too
// long. It is 0 without calls. If the median is above the last bound, it is the last bound.
func (t Totals) Median() time.Duration {
	if len(t.Took) == 0 || t.Took[len(t.Took)-1].Calls <= 0 {
		return 0
	}
	half, most := t.Took[len(t.Took)-1].Calls/2, 0.0
	for _, b := range t.Took {
		if !math.IsInf(b.Most, 1) {
			most = b.Most
		}
		if b.Calls >= half {
			break
		}
	}
	return time.Duration(most * float64(time.Second))
}
