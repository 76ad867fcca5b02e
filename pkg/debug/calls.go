package debug

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/winnpm/winnpm/pkg/hns"
)

// operations are the predecessor's words for the verbs of HNS.
var operations = map[hns.Verb]string{hns.Add: "create", hns.Update: "update", hns.Remove: "delete"}

// unavailable is also the class of an error without a class: in both cases the agent does not know whether the call
// was carried out.
const unavailable = "unavailable"

// classes are the classes of errors, with the values of the label class.
var classes = []struct {
	err   error
	label string
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

func labelOf(err error) string {
	for _, class := range classes {
		if errors.Is(err, class.err) {
			return class.label
		}
	}
	return unavailable
}

// callBuckets are the buckets of calls of HNS, to 65 s, the longest that was seen.
var callBuckets = prometheus.ExponentialBuckets(0.008, 2, 14)

// calls are the metrics of requests to HNS.
type calls struct {
	begun  *prometheus.CounterVec // by operation
	errors *prometheus.CounterVec // by operation and class

	// The metrics of the predecessor, by the name of a kind of call.
	latency        map[string]*prometheus.HistogramVec
	failures       map[string]*prometheus.CounterVec
	addACL, addSet prometheus.Summary
}

func newCalls(series promauto.Factory) calls {
	c := calls{
		begun: series.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_hns_calls_total",
			Help: "Calls of HNS that were begun.",
		}, []string{"operation"}),
		errors: series.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_hns_errors_total",
			Help: "Calls of HNS that ended in an error, answers like not_found included.",
		}, []string{"operation", "class"}),
		latency: map[string]*prometheus.HistogramVec{}, failures: map[string]*prometheus.CounterVec{},
		addACL: series.NewSummary(millis("npm_add_iptables_rule_exec_time", "Milliseconds of a call that writes ACLs of an endpoint.")),
		addSet: series.NewSummary(millis("npm_add_ipset_exec_time", "Milliseconds of a call that adds sets.")),
	}
	for _, kind := range []struct {
		name, doing string
		labels      []string
	}{
		{"list_endpoints", "finding the endpoints of the network", nil},
		{"get_endpoint", "reading one endpoint", nil},
		{"get_network", "reading the network", nil},
		{"acl", "writing the ACLs of an endpoint", []string{"operation"}},
		{"setpolicy", "writing sets of the network", []string{"operation", "is_nested"}},
	} {
		c.latency[kind.name] = series.NewHistogramVec(prometheus.HistogramOpts{
			Name: "npm_windows_" + kind.name + "_latency_seconds",
			Help: "Duration of calls for " + kind.doing + ", failed ones included.", Buckets: callBuckets,
		}, kind.labels)
		c.failures[kind.name] = series.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_windows_" + kind.name + "_failure_total",
			Help: "Failed calls for " + kind.doing + ".",
		}, kind.labels)
	}
	requests := []hns.Request{{Op: hns.OpNetworkGet}, {Op: hns.OpEndpointIDs}, {Op: hns.OpEndpointNew}, {Op: hns.OpEndpointGet}, {Op: hns.OpACLAdd}, {Op: hns.OpACLUpdate}}
	for verb := range operations {
		op := hns.OpSets(verb)
		requests = append(requests, hns.Request{Op: op}, hns.Request{Op: op, Sets: []hns.SetPolicy{{Type: hns.NestedIPSet}}})
	}
	for _, r := range requests {
		kind, labels := seriesOf(r)
		c.latency[kind].WithLabelValues(labels...)
		c.failures[kind].WithLabelValues(labels...)
		c.begun.WithLabelValues(r.Op)
		for _, class := range classes {
			c.errors.WithLabelValues(r.Op, class.label)
		}
	}
	return c
}

// seriesOf returns the kind of call that the predecessor measured, and the values of its labels.
func seriesOf(r hns.Request) (kind string, labels []string) {
	switch r.Op {
	case hns.OpNetworkGet:
		return "get_network", nil
	case hns.OpEndpointIDs, hns.OpEndpointNew:
		return "list_endpoints", nil
	case hns.OpEndpointGet:
		return "get_endpoint", nil
	case hns.OpACLAdd:
		return "acl", []string{"create"}
	case hns.OpACLUpdate:
		return "acl", []string{"update"}
	}
	nested := len(r.Sets) > 0 && r.Sets[0].Type == hns.NestedIPSet // a request has sets of one type
	return "setpolicy", []string{operations[r.Verb()], strconv.FormatBool(nested)}
}

// Client returns a client that measures every call of c and does not change arguments or results.
func (m *Metrics) Client(c hns.Client) hns.Client {
	return hns.Wrap(c, func(_ context.Context, r hns.Request, do func() hns.Result) hns.Result {
		m.calls.begun.WithLabelValues(r.Op).Inc()
		start := m.cfg.Now()
		out := do()
		m.calls.ended(r, out.Err, m.cfg.Now().Sub(start))
		return out
	})
}

// ended records the end of a call. A read of an endpoint that is gone does not count as a failure:
// that is the usual answer after a pod has ended. Neither does a read of an endpoint of another
// network or node.
func (c *calls) ended(r hns.Request, err error, took time.Duration) {
	if err != nil {
		c.errors.WithLabelValues(r.Op, labelOf(err)).Inc()
	}
	kind, labels := seriesOf(r)
	c.latency[kind].WithLabelValues(labels...).Observe(took.Seconds())
	if answered := r.Op == hns.OpEndpointGet && (hns.EndpointGone(err) || errors.Is(err, hns.ErrElsewhere)); err != nil && !answered {
		c.failures[kind].WithLabelValues(labels...).Inc()
	}
	switch {
	case kind == "acl":
		c.addACL.Observe(1000 * took.Seconds())
	case r.Verb() == hns.Add:
		c.addSet.Observe(1000 * took.Seconds())
	}
}

// millis returns the options of a summary in milliseconds, with the predecessor's quantiles over
// the last ten minutes.
func millis(name, help string) prometheus.SummaryOpts {
	return prometheus.SummaryOpts{Name: name, Help: help, Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}, MaxAge: 10 * time.Minute}
}
