package dataplane

import (
	"strings"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/state"
)

// starts returns the start of a pod that is placed now. Of one that is in the first
// transaction nobody can say how long it was open.
func (d *core) starts(p *podState) *state.Start {
	if d.generation <= 1 {
		return nil
	}
	return &state.Start{Since: d.now, Told: p.Sandbox.ID != ""}
}

// started notes that an endpoint is right. If it is so for the first time, the start of its
// pod has ended.
func (d *core) started(ep *endpoint) {
	p := d.local[ep.owner]
	switch {
	case p == nil || p.start == nil || !p.start.Until.IsZero() || !ep.known() || ep.state.check:
	case p.isolated() == [2]bool{} && !p.tiered():
		p.start = nil
	default:
		until := *p.start
		until.Until = d.clock
		p.start = &until
		d.ruled = append(d.ruled, state.PodStart{Pod: p.Key().String(), Start: until})
	}
}

// restoreStarts gives the local pods what a dump has of their starts, and of the search for
// their endpoints.
func (d *core) restoreStarts(pods []state.Pod) {
	for _, pd := range pods {
		ns, name, _ := strings.Cut(pd.Pod, "/")
		p := d.members.pods[PodKey{Namespace: ns, Name: name}]
		if p == nil || p.placement == nil {
			continue
		}
		p.listed, p.search = pd.Listed, backoff.Retry{Tries: pd.Search.Attempts, At: pd.Search.At}
		if p.start = nil; pd.Start != nil {
			start := *pd.Start
			p.start = &start
		}
	}
}
