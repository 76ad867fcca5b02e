package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
)

// desiredOf renders the policies that select a pod.
func (d *State) desiredOf(p *PodState) render.Rules {
	p.closed = d.closedOn(p)
	w := render.Rules{Shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(p.Isolated(), d.nodeAddrs))}
	for _, ps := range p.selected {
		w.Groups = append(w.Groups, d.group(ps, p))
	}
	return w
}

// group renders a policy for a pod that it selects; one that has no room on it has
// no rules. What no port of a pod
// has a part in is rendered once for all of them.
func (d *State) group(ps *policyState, p *PodState) *render.Group {
	if slices.Contains(p.closed, ps) {
		return &render.Group{Key: ps.Key, Isolates: ps.Isolates}
	}
	if ps.group != nil {
		return ps.group
	}
	defer d.progress.Within("rendering", progress.NetworkPolicy, ps.Key.Namespace, ps.Key.Name)()
	g := render.Policy(&ps.Compiled, podPorts{p, ps}, d.id)
	if !ps.namesPorts() {
		ps.group = g
	}
	return g
}
