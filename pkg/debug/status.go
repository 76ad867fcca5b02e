package debug

import (
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// StatusPath answers with a Status as JSON.
const StatusPath = "/npm/v1/debug/status"

// Status is the health of an agent, and its pending work.
type Status struct {
	Node     string         `json:"node"`
	Version  string         `json:"version"`
	Time     time.Time      `json:"time"` // of the dump
	Healthy  Health         `json:"healthy"`
	Ready    Health         `json:"ready"`
	Counts   Counts         `json:"counts"`
	Pending  []PendingEntry `json:"pending"` // the first in the order of the queue
	Behind   []BehindEntry  `json:"behind"`  // sets whose actual members differ from the desired ones
	Warnings []WarningEntry `json:"warnings"`
}

// Health is a check with the reason of its failure.
type Health struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// Counts are numbers of objects.
type Counts struct {
	Pods       int `json:"pods"` // of the cluster
	LocalPods  int `json:"localPods"`
	Endpoints  int `json:"endpoints"`
	Namespaces int `json:"namespaces"`
	Policies   int `json:"policies"`
	Sets       int `json:"sets"`
	Programmed int `json:"programmedSets"` // in HNS
	ACLs       int `json:"acls"`           // ours, in HNS as far as known
	// Pending, Behind and Warnings count all entries, including those that the status does not
	// list.
	Pending  int `json:"pending"`
	Behind   int `json:"behind"`
	Warnings int `json:"warnings"`
}

// maxAttention is how many entries of a kind a status lists.
const maxAttention = 50

// PendingEntry is an outstanding pod update.
type PendingEntry struct {
	state.Pending
	Since time.Time `json:"since,omitzero"`
}

// BehindEntry is a set whose actual members differ from the desired ones.
type BehindEntry struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Missing int       `json:"missing"`
	Surplus int       `json:"surplus"`
	Unknown bool      `json:"unknown"`
	Since   time.Time `json:"since,omitzero"`
}

// WarningEntry is a warning with the time since when it is active, as far as the stored reports
// show.
type WarningEntry struct {
	state.Warning
	Since  time.Time `json:"since,omitzero"`
	Longer bool      `json:"longer,omitempty"` // perhaps longer than that
}

// StatusOf returns the status of the agent that made a dump.
func StatusOf(d state.Dump, version string, healthy, ready func() error) Status {
	out := Status{
		Node: d.Node, Version: version, Time: d.Time,
		Healthy: healthOf(healthy), Ready: healthOf(ready), Counts: count(d),
		Pending: []PendingEntry{}, Behind: []BehindEntry{}, Warnings: []WarningEntry{},
	}
	since := map[string]time.Time{}
	for _, ep := range d.Endpoints {
		since[ep.ID] = ep.Since
	}
	for _, pending := range d.Pending[:min(len(d.Pending), maxAttention)] {
		out.Pending = append(out.Pending, PendingEntry{pending, since[pending.Endpoint]})
	}
	for _, set := range d.Sets {
		if b := (BehindEntry{set.ID, set.Name, len(set.Missing), len(set.Surplus), set.Unknown, set.Since}); b.Unknown || b.Missing+b.Surplus > 0 {
			out.Counts.Behind++
			if len(out.Behind) < maxAttention {
				out.Behind = append(out.Behind, b)
			}
		}
	}
	for _, w := range d.Warnings[:min(len(d.Warnings), maxAttention)] {
		out.Warnings = append(out.Warnings, warned(w, d.Reports))
	}
	return out
}

func healthOf(check func() error) Health {
	if err := check(); err != nil {
		return Health{Reason: strings.Join(strings.Fields(err.Error()), " ")}
	}
	return Health{OK: true}
}

func count(d state.Dump) Counts {
	c := Counts{Pods: len(d.Pods), Endpoints: len(d.Endpoints), Namespaces: len(d.Namespaces), Policies: len(d.Policies) + len(d.ClusterPolicies), Sets: len(d.Sets), Pending: len(d.Pending), Warnings: len(d.Warnings)}
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

// warned returns a warning with the time of the earliest report since which all reports have it.
func warned(w state.Warning, reports []state.Report) WarningEntry {
	out := WarningEntry{Warning: w}
	for i, r := range slices.Backward(reports) {
		if !slices.Contains(r.Warnings, w) {
			break
		}
		out.Since, out.Longer = r.Started, i == 0 && r.Generation > 1
	}
	return out
}
