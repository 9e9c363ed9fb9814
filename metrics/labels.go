package metrics

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// other is the label of a name that is not in its set.
const other = "other"

// maxNames bounds the names of one set, however many an MCP server or a policy directory brings.
const maxNames = 200

var (
	stageNames = []string{
		"lookup", "resolve", "before", "judge", "approve", "hold", "job", "begin", "run", "settle", "format",
		"remember", "after",
	}
	statuses = []string{
		string(tool.StatusSuccess), string(tool.StatusError), string(tool.StatusExecutionRejected),
		string(tool.StatusResultRejected), string(tool.StatusNotFound),
	}
	shadowResults = []string{"same", "looser", "tighter", "error", "missed"}

	connectionVerdicts = []string{egress.Allowed, egress.Denied}
	protocols          = []string{
		egress.ProtocolTLS, egress.ProtocolHTTP, egress.ProtocolTCP, egress.ProtocolDNS, egress.ProtocolUDP,
	}
	vias = []string{
		egress.ViaTransparent, egress.ViaConnect, egress.ViaSocks5, egress.ViaProxy, egress.ViaFetch,
	}

	backends    = []string{"linux", "fake"}
	exitReasons = []string{
		"exited", "signaled", "timed_out", "output", "memory", "processes", "cpu", "file_size", "disk",
	}
	featureNames = []string{
		"userns", "mountns", "pidns", "ipcns", "netns", "utsns", "cgroupns", "timens", "landlock", "seccomp", "rlimits",
		"cgroup2", "cgroup", "no_new_privs", "capabilities",
	}
)

// waitBuckets are for the time that people take: up to an hour.
var waitBuckets = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600}

// oneOf returns name if the set holds it, and "other" if not.
func oneOf[T ~string](name T, set []T) string {
	if slices.Contains(set, name) {
		return string(name)
	}
	return other
}

// feature returns the name of a layer without its version or the reason why it is missing ("landlock:7", "cgroup2:
// not delegated").
func feature(layer string) string {
	name, _, _ := strings.Cut(layer, ":")
	return oneOf(strings.TrimSpace(name), featureNames)
}

// rule returns the label of a decision: the rule that decided if it is one of the loaded policies, otherwise the
// layer. Built-in rules have no label of their own, because their names hold paths.
func (s *Set) rule(d tool.Decision) string {
	var id string
	if len(d.Reasons) > 0 {
		id = d.Reasons[0].Rule
	}
	switch d.By {
	case tool.ByRule:
		return s.rules.label(id)
	case tool.ByMode:
		return "mode:" + oneOf(tool.Mode(strings.TrimPrefix(id, "mode:")), tool.Modes)
	case tool.ByFloor, tool.ByTool, tool.ByHook, tool.ByCore:
		return string(d.By)
	}
	return other
}

// names is a bounded set of names that can be replaced.
type names struct {
	mu    sync.RWMutex // guards known
	known map[string]bool
}

func newNames() *names { return &names{} }

func (n *names) set(known []string) {
	m := make(map[string]bool, min(len(known), maxNames))
	for _, name := range known {
		if len(m) < maxNames {
			m[name] = true
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = m
}

func (n *names) label(name string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.known[name] {
		return name
	}
	return other
}

const namespace = "sandboxd"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(histogram(name, help, prometheus.ExponentialBuckets(0.0001, 4, 12)), labels)
}
