package dataplane

import (
	"fmt"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Plan is what one transaction is about to ask of HNS. It is a value: making it
// changes nothing.
type Plan struct {
	Sets []ipsets.Request // phase 1
	Pods []PodPlan
	// Held are the pods that wait for an endpoint.
	Held []PodKey
	// Removals is what phase 2 could delete now; what the pod updates set free
	// comes on top of it.
	Removals []ipsets.Request
}

// PodPlan is what one endpoint needs.
type PodPlan struct {
	Pod      PodKey
	Endpoint string
	Reread   bool // the outcome of the last write is not known
	steps    []step
}

// plan computes the plan of the staged state; no I/O.
func (d *core) plan(now time.Time) Plan {
	p := Plan{Sets: d.cache.Plan()}
	for _, ep := range d.due(now) {
		pp := PodPlan{Endpoint: ep.id, Reread: !ep.known()}
		if owner := d.local[ep.owner]; owner != nil {
			pp.Pod = owner.Key()
		}
		if d.cfg.DryRun && ep.known() { // they are planned when their turn comes, and here for the text
			pp.steps = d.steps(ep)
		}
		p.Pods = append(p.Pods, pp)
	}
	for _, pod := range d.waiting() {
		p.Held = append(p.Held, pod.Key())
	}
	p.Removals = d.removals(now)
	return p
}

// Empty reports whether nothing is to be written.
func (p Plan) Empty() bool { return len(p.Sets)+len(p.Pods)+len(p.Removals) == 0 }

// Summary is the plan in one line of counts; empty for an empty plan.
func (p Plan) Summary() string {
	if p.Empty() {
		return ""
	}
	count := map[ipsets.Verb]int{}
	for _, reqs := range [][]ipsets.Request{p.Sets, p.Removals} {
		for _, req := range reqs {
			count[req.Verb] += len(req.Sets)
		}
	}
	return fmt.Sprintf("sets +%d ~%d -%d, endpoints %d", count[ipsets.Add], count[ipsets.Update], count[ipsets.Remove], len(p.Pods))
}

// String is the whole plan, a line for every set and ACL.
func (p Plan) String() string {
	var b strings.Builder
	section := func(title string, n int) {
		if n > 0 {
			fmt.Fprintln(&b, title)
		}
	}
	section("phase 1", len(p.Sets))
	for _, req := range p.Sets {
		b.WriteString(indent(req.String()))
	}
	section("pods", len(p.Pods))
	for _, pod := range p.Pods {
		fmt.Fprintf(&b, "  %s  %s\n", pod.Pod, pod.Endpoint)
		if pod.Reread {
			b.WriteString("    read it again: the outcome of the last write is not known\n")
		}
		for _, s := range pod.steps {
			b.WriteString(indent(s.String()))
		}
	}
	section("phase 2", len(p.Removals))
	for _, req := range p.Removals {
		b.WriteString(indent(req.String()))
	}
	for _, pod := range p.Held {
		fmt.Fprintf(&b, "held: pod %s: endpoint not seen yet\n", pod)
	}
	return b.String()
}

// indent puts two blanks before every line and ends with a line feed.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}
