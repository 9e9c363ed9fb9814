// Package metrics counts what the daemon does, for Prometheus. It is the only
// package that knows the Prometheus client.
//
//	m := metrics.New(version)
//	m.SetTools([]string{"Bash", "Read"}) // so SetRules and SetHooks; again after a reload
//	m.Done(call)                         // when a call has ended; other things have a method each
//	http.Handle("GET /metrics", m.Handler())
//
// [Set.Disk] and [Set.Budget] register numbers that are asked for at each scrape, and so does
// [Set.Gauge] for a part: call each once, for a name that is not there yet. [Read] reads the output
// of a handler back into [Totals], for people.
//
// Labels come from closed sets: paths, commands, accounts, sessions and texts of
// the model never become one. The names of tools, rules and hooks are at most 200 each. A name
// outside of its set counts as "other", so that nobody on a socket can make series grow.
//
// A new metric is a field of [Set], made and registered in [New], with a method that counts; and a row in
// docs/metrics.md. A part brings its own numbers with part.Part.Metrics.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Set holds all metrics of one daemon. It is safe for concurrent use.
type Set struct {
	registry *prometheus.Registry

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	stages    *prometheus.HistogramVec
	decisions *prometheus.CounterVec
	shadow    *prometheus.CounterVec
	reload    prometheus.Gauge
	reloads   *prometheus.CounterVec
	configs   *prometheus.CounterVec
	config    prometheus.Gauge
	pending   prometheus.Gauge
	waits     prometheus.Histogram
	exits     *prometheus.CounterVec
	features  *prometheus.GaugeVec
	caches    *prometheus.CounterVec
	hooks     *prometheus.HistogramVec
	roleSplit *prometheus.GaugeVec
	network   *prometheus.CounterVec

	tools, rules, hookNames *names
}

// New returns the metrics of a daemon with this version.
func New(version string) *Set {
	s := &Set{
		registry:  prometheus.NewRegistry(),
		requests:  counters("requests_total", "Calls by tool and how they ended.", "tool", "outcome"),
		durations: histograms("request_duration_seconds", "Time from receiving a call to its answer.", "tool"),
		stages:    histograms("stage_duration_seconds", "Time in one stage of the request path.", "stage"),
		decisions: counters("policy_decisions_total", "Decisions by verdict and deciding rule.", "verdict", "rule"),
		shadow: counters("policy_shadow_total",
			"Calls that policy.shadow judged, by how its decision compares with the one that counts.", "result"),
		reload:  gauge("policy_last_reload_success_timestamp_seconds", "When the policies were last loaded."),
		reloads: counters("policy_reloads_total", "Attempts to load the policies.", "result"),
		configs: counters("config_reloads_total", "Attempts to load the configuration.", "result"),
		config:  gauge("config_last_reload_success_timestamp_seconds", "When the configuration was last loaded."),
		pending: gauge("approvals_pending", "Questions that wait for a person."),
		waits: prometheus.NewHistogram(histogram("approval_wait_seconds",
			"Time until a person answered, or nobody did.", waitBuckets)),
		exits: counters("sandbox_exits_total", "Programs that ended in the sandbox.", "backend", "reason"),
		features: gauges("sandbox_feature_info", "Whether a layer of the sandbox holds on this host.", "feature",
			"state"),
		caches: counters("cache_requests_total", "Look-ups in the caches of the request path.", "result"),
		hooks:  histograms("hook_duration_seconds", "Time one hook took.", "hook"),
		network: counters("network_connections_total", "Connections of programs in the sandbox, and attempts.",
			"verdict", "protocol", "via"),
		roleSplit: gauges("role_split_info",
			"Whether agent and operator are different users (enforced) or share one (advisory).", "state"),
		tools: newNames(), rules: newNames(), hookNames: newNames(),
	}
	build := gauges("build_info", "The version that runs.", "version")
	build.WithLabelValues(version).Set(1)
	s.registry.MustRegister(
		s.requests, s.durations, s.stages, s.decisions, s.shadow, s.reload, s.reloads, s.config, s.configs, s.pending,
		s.waits,
		s.exits,
		s.features, s.caches, s.hooks, s.roleSplit, s.network, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return s
}

// Handler answers scrapes.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
}

// SetTools sets the names of tools that have a label of their own; at most 200.
func (s *Set) SetTools(known []string) { s.tools.set(known) }

// SetRules sets the names of the loaded rules that have a label; at most 200.
func (s *Set) SetRules(known []string) { s.rules.set(known) }

// SetHooks sets the names of configured hooks that have a label; at most 200.
func (s *Set) SetHooks(known []string) { s.hookNames.set(known) }

// Stage observes how long a call took for one stage.
func (s *Set) Stage(name string, d time.Duration) {
	s.stages.WithLabelValues(oneOf(name, stageNames)).Observe(d.Seconds())
}

// Done counts a finished call.
func (s *Set) Done(c *tool.Call) {
	label := s.tools.label(c.Request.Tool)
	s.requests.WithLabelValues(label, oneOf(string(c.Result.Status), statuses)).Inc()
	s.durations.WithLabelValues(label).Observe(time.Since(c.Started).Seconds())
	if len(c.Decision.Reasons) > 0 || c.Decision.By != "" {
		s.decisions.WithLabelValues(c.Decision.Verdict.String(), s.rule(c.Decision)).Inc()
	}
	if a := c.Approval; a != nil && !a.Asked.IsZero() {
		s.waits.Observe(max(0, a.Answered.Sub(a.Asked).Seconds()))
	}
	if x, ok := c.Output.Data.(ender); ok {
		_, why := x.Ended()
		s.SandboxExit("linux", why)
	}
	for _, r := range c.Network.Connections {
		labels := []string{oneOf(r.Verdict, connectionVerdicts), oneOf(r.Protocol, protocols), oneOf(r.Via, vias)}
		s.network.WithLabelValues(labels...).Add(float64(max(0, r.Count)))
	}
}

// ender is implemented by the data of a tool that ran one program. It returns the exit status, and "exited",
// "signaled", "timed_out" or the limit that ended the program.
type ender interface {
	Ended() (code int, why string)
}

// Cache counts a look-up in one of the caches of the request path.
func (s *Set) Cache(hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	s.caches.WithLabelValues(result).Inc()
}

// Hook counts one run of a hook.
func (s *Set) Hook(name string, d time.Duration) {
	s.hooks.WithLabelValues(s.hookNames.label(name)).Observe(d.Seconds())
}

// SandboxExit counts a program that ended: why is "exited", "signaled",
// "timed_out", or the limit that ended it.
func (s *Set) SandboxExit(backend, why string) {
	s.exits.WithLabelValues(oneOf(backend, backends), oneOf(why, exitReasons)).Inc()
}

// Shadow counts a call that the shadow policies judged. result is same, looser, tighter, error or missed.
func (s *Set) Shadow(result string) { s.shadow.WithLabelValues(oneOf(result, shadowResults)).Inc() }

// ApprovalsPending sets the number of questions that wait.
func (s *Set) ApprovalsPending(n int) { s.pending.Set(float64(n)) }

// Reloaded counts an attempt to load the policies.
func (s *Set) Reloaded(err error) {
	if err != nil {
		s.reloads.WithLabelValues("error").Inc()
		return
	}
	s.reloads.WithLabelValues("success").Inc()
	s.reload.SetToCurrentTime()
}

// ConfigLoaded counts an attempt to load the configuration.
func (s *Set) ConfigLoaded(err error) {
	if err != nil {
		s.configs.WithLabelValues("error").Inc()
		return
	}
	s.configs.WithLabelValues("success").Inc()
	s.config.SetToCurrentTime()
}

// Sandbox sets which layers of the sandbox are active and which are missing.
func (s *Set) Sandbox(r sandbox.Report) {
	s.features.Reset()
	for _, l := range r.Layers {
		s.features.WithLabelValues(feature(l), "active").Set(1)
	}
	for _, l := range r.Missing {
		s.features.WithLabelValues(feature(l), "missing").Set(1)
	}
}

// RoleSplit sets whether the kernel tells agents and operators apart.
func (s *Set) RoleSplit(enforced bool) {
	s.roleSplit.Reset()
	state := "advisory"
	if enforced {
		state = "enforced"
	}
	s.roleSplit.WithLabelValues(state).Set(1)
}

// Gauge registers a number of a part as sandboxd_NAME. value is called at each scrape.
func (s *Set) Gauge(name, help string, value func() float64) {
	s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help},
		value))
}

// Disk registers the free and used space on the disks of the daemon. use is called at each scrape.
func (s *Set) Disk(use func() diskspace.Use) {
	s.Gauge("disk_free_bytes", "Free space on the file system of the record, with the reserve.",
		func() float64 { return float64(use().Free) })
	s.Gauge("disk_reserve_bytes", "What of it is kept from agents.",
		func() float64 { return float64(use().Reserve) })
	s.Gauge("disk_low", "1 while the reserve is touched and agents are refused.", func() float64 {
		if use().Low {
			return 1
		}
		return 0
	})
	s.Gauge("disk_files_bytes", "What the private files of all sessions take.",
		func() float64 { return float64(use().Files) })
	s.Gauge("disk_values_bytes", "What the variables of all sessions take.",
		func() float64 { return float64(use().Values) })
	s.Gauge("disk_full_accounts", "Accounts that are refused for what they keep.",
		func() float64 { return float64(use().Full) })
	for i, why := range diskspace.Reasons {
		s.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Name: "disk_refused_total",
			Help:        "What was refused to agents for want of room on a disk.",
			ConstLabels: prometheus.Labels{"reason": why},
		}, func() float64 { return float64(use().Refused[i]) }))
	}
}

// Budget registers what agents use of the budget, and what was refused. use is called at each scrape.
func (s *Set) Budget(use func() budget.Use) {
	s.Gauge("budget_bytes", "Memory that requests of agents have taken from limits.agentBytes.",
		func() float64 { return float64(use().Bytes) })
	s.Gauge("budget_connections", "Connections of agents.", func() float64 { return float64(use().Connections) })
	s.Gauge("budget_requests", "Requests of agents under way.", func() float64 { return float64(use().Requests) })
	for i, why := range budget.Reasons {
		s.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Name: "budget_refused_total", Help: "What was refused to agents for want of room.",
			ConstLabels: prometheus.Labels{"reason": why},
		}, func() float64 { return float64(use().Refused[i]) }))
	}
}
