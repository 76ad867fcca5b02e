package ui

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// status is how the agent is, and what it has not done yet.
type status struct {
	Node    string         `json:"node"`
	Version string         `json:"version"`
	Time    time.Time      `json:"time"` // of the dump
	Healthy health         `json:"healthy"`
	Ready   health         `json:"ready"`
	Counts  counts         `json:"counts"`
	Pending []pendingEntry `json:"pending"` // the first in the order of the queue
	Behind  []behindEntry  `json:"behind"`  // sets that HNS has not as they should be
	Warns   []warningEntry `json:"warnings"`
}

type health struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

type counts struct {
	Pods       int `json:"pods"` // of the cluster
	LocalPods  int `json:"localPods"`
	Endpoints  int `json:"endpoints"`
	Namespaces int `json:"namespaces"`
	Policies   int `json:"policies"`
	Sets       int `json:"sets"`
	Programmed int `json:"programmedSets"` // in HNS
	ACLs       int `json:"acls"`           // ours, in HNS as far as known
	// How many there are of what the status lists.
	Pending  int `json:"pending"`
	Behind   int `json:"behind"`
	Warnings int `json:"warnings"`
}

// maxAttention is how many of a kind the status lists; the views have the others.
const maxAttention = 50

type pendingEntry struct {
	state.Pending
	Since time.Time `json:"since,omitzero"`
}

type behindEntry struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Missing int       `json:"missing"`
	Surplus int       `json:"surplus"`
	Unknown bool      `json:"unknown"`
	Since   time.Time `json:"since,omitzero"`
}

// warningEntry is a warning with the time since when it is active, as far as reports go
// back.
type warningEntry struct {
	state.Warning
	Since  time.Time `json:"since,omitzero"`
	Longer bool      `json:"longer,omitempty"` // perhaps longer than that
}

func (p *server) status(s *snapshot, _ *http.Request) (any, error) {
	d := s.dump
	out := status{
		Node: d.Node, Version: p.cfg.Version, Time: d.Time,
		Healthy: healthOf(p.cfg.Healthy), Ready: healthOf(p.cfg.Ready), Counts: count(d),
		Pending: []pendingEntry{}, Behind: []behindEntry{}, Warns: []warningEntry{},
	}
	since := map[string]time.Time{}
	for _, ep := range d.Endpoints {
		since[ep.ID] = ep.Since
	}
	for _, pending := range d.Pending[:min(len(d.Pending), maxAttention)] {
		out.Pending = append(out.Pending, pendingEntry{pending, since[pending.Endpoint]})
	}
	for _, set := range d.Sets {
		if b := (behindEntry{set.ID, set.Name, len(set.Missing), len(set.Surplus), set.Unknown, set.Since}); b.Unknown || b.Missing+b.Surplus > 0 {
			out.Counts.Behind++
			if len(out.Behind) < maxAttention {
				out.Behind = append(out.Behind, b)
			}
		}
	}
	for _, w := range d.Warnings[:min(len(d.Warnings), maxAttention)] {
		out.Warns = append(out.Warns, warned(w, d.Reports))
	}
	return out, nil
}

func healthOf(check func() error) health {
	if err := check(); err != nil {
		return health{Reason: strings.Join(strings.Fields(err.Error()), " ")}
	}
	return health{OK: true}
}

func count(d state.Dump) counts {
	c := counts{Pods: len(d.Pods), Endpoints: len(d.Endpoints), Namespaces: len(d.Namespaces), Policies: len(d.Policies) + len(d.ClusterPolicies), Sets: len(d.Sets), Pending: len(d.Pending), Warnings: len(d.Warnings)}
	for _, p := range d.Pods {
		if p.Local {
			c.LocalPods++
		}
	}
	for _, s := range d.Sets {
		if s.InHNS {
			c.Programmed++
		}
	}
	for _, ep := range d.Endpoints {
		c.ACLs += len(ep.Applied)
	}
	return c
}

// warned finds the first of the last reports that all have a warning.
func warned(w state.Warning, reports []state.Report) warningEntry {
	out := warningEntry{Warning: w}
	for i, r := range slices.Backward(reports) {
		if !slices.Contains(r.Warnings, w) {
			break
		}
		out.Since, out.Longer = r.Started, i == 0 && r.Generation > 1
	}
	return out
}
