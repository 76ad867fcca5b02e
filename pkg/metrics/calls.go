package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/winnpm/winnpm/pkg/hns"
)

// The values of the label operation that the predecessor had.
const (
	create = "create"
	update = "update"
	remove = "delete"
)

// verbs are the predecessor's words for those of HNS.
var verbs = map[hns.Verb]string{hns.Add: create, hns.Update: update, hns.Remove: remove}

// The values of the label is_nested, and of had_error.
const (
	yes = "true"
	no  = "false"
)

func yesNo(b bool) string {
	if b {
		return yes
	}
	return no
}

// unavailable is also the class of what has no class: in both cases nobody
// knows whether the call was carried out.
const unavailable = "unavailable"

// classes are the values of the label class.
var classes = []struct {
	err  error
	name string
}{
	{hns.ErrNotFound, "not_found"},
	{hns.ErrAlreadyExists, "already_exists"},
	{hns.ErrInUse, "in_use"},
	{hns.ErrConflict, "conflict"},
	{hns.ErrInvalid, "invalid"},
	{hns.ErrElsewhere, "elsewhere"},
	{hns.ErrUnlisted, "unlisted"},
	{hns.ErrUnavailable, unavailable},
}

func classOf(err error) string {
	for _, class := range classes {
		if errors.Is(err, class.err) {
			return class.name
		}
	}
	return unavailable
}

// calls are the metrics of requests to HNS.
type calls struct {
	begun  *prometheus.CounterVec // by operation
	errors *prometheus.CounterVec // by operation and class

	enumerate, getEndpoint, getNetwork timed
	acl                                timed // by operation
	setPolicy                          timed // by operation, is_nested

	addACLMillis, addSetMillis prometheus.Summary
}

func newCalls() *calls {
	c := &calls{
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_hns_calls_total",
			Help: "Calls of HNS that were begun.",
		}, []string{"operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_hns_errors_total",
			Help: "Calls of HNS that ended in an error, answers like not_found included.",
		}, []string{"operation", "class"}),
		enumerate:   newTimed("list_endpoints", "finding the endpoints of the network"),
		getEndpoint: newTimed("get_endpoint", "reading one endpoint"),
		getNetwork:  newTimed("get_network", "reading the network"),
		acl:         newTimed("acl", "writing the ACLs of an endpoint", "operation"),
		setPolicy:   newTimed("setpolicy", "writing sets of the network", "operation", "is_nested"),
		addACLMillis: newMillis("npm_add_iptables_rule_exec_time",
			"Milliseconds of a call that writes ACLs of an endpoint."),
		addSetMillis: newMillis("npm_add_ipset_exec_time",
			"Milliseconds of a call that adds sets."),
	}
	for _, f := range []timed{c.enumerate, c.getEndpoint, c.getNetwork} {
		f.begin()
	}
	operations := []string{hns.OpNetworkGet, hns.OpEndpointIDs, hns.OpEndpointNew, hns.OpEndpointGet, hns.OpACLAdd, hns.OpACLUpdate}
	c.acl.begin(create)
	c.acl.begin(update)
	for verb, operation := range verbs {
		operations = append(operations, hns.OpSets(verb))
		c.setPolicy.begin(operation, no)
		c.setPolicy.begin(operation, yes)
	}
	for _, op := range operations {
		c.begun.WithLabelValues(op)
		for _, class := range classes {
			c.errors.WithLabelValues(op, class.name)
		}
	}
	return c
}

func (c *calls) collectors() []prometheus.Collector {
	out := []prometheus.Collector{c.begun, c.errors, c.addACLMillis, c.addSetMillis}
	for _, f := range []timed{c.enumerate, c.getEndpoint, c.getNetwork, c.acl, c.setPolicy} {
		out = append(out, f.latency, f.failures)
	}
	return out
}

// timed is what the predecessor measured of one kind of call.
type timed struct {
	latency  *prometheus.HistogramVec
	failures *prometheus.CounterVec
}

func newTimed(name, doing string, labels ...string) timed {
	return timed{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "npm_windows_" + name + "_latency_seconds",
			Help:    "Duration of calls for " + doing + ", failed ones included.",
			Buckets: prometheus.ExponentialBuckets(0.008, 2, 14), // to 65 s, the longest that was seen
		}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_windows_" + name + "_failure_total",
			Help: "Failed calls for " + doing + ".",
		}, labels),
	}
}

// begin makes both series of some labels, at 0.
func (f timed) begin(labels ...string) {
	f.latency.WithLabelValues(labels...)
	f.failures.WithLabelValues(labels...)
}

// observe takes one call that has ended.
func (f timed) observe(took time.Duration, failed bool, labels ...string) {
	f.latency.WithLabelValues(labels...).Observe(took.Seconds())
	if failed {
		f.failures.WithLabelValues(labels...).Inc()
	}
}

// window is how far back a summary looks.
const window = 10 * time.Minute

// objectives are the quantiles of a summary and how far off each may be.
func objectives() map[float64]float64 { return map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001} }

func newMillis(name, help string) prometheus.Summary {
	return prometheus.NewSummary(prometheus.SummaryOpts{Name: name, Help: help, Objectives: objectives(), MaxAge: window})
}

func newMillisVec(name, help string, labels ...string) *prometheus.SummaryVec {
	return prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, Objectives: objectives(), MaxAge: window}, labels)
}

// millis is the unit of the predecessor's summaries.
func millis(d time.Duration) float64 { return 1000 * d.Seconds() }
