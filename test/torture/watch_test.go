package torture

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// watch is what the check of I4 remembers of the endpoints.
type watch struct {
	seen   map[string]bool      // by the process that runs now
	ours   map[string]bool      // had rules of ours once
	before map[string]bool      // had them when everything was programmed last
	right  map[string]types.UID // the pod that they were programmed for, by the process that runs now
	damage damage
}

func newWatch() watch {
	return watch{seen: map[string]bool{}, ours: map[string]bool{}, before: map[string]bool{}, right: map[string]types.UID{}}
}

// damage is what somebody else did to ours and nobody repaired yet. Until then
// no packet is asked about that it can influence: none of an endpoint whose
// rules were touched, none in a direction for which an endpoint has a rule that
// names a touched set, directly or through a nested set.
type damage struct {
	all       bool
	endpoints map[string]bool
	sets      map[string]bool // by Id
}

func (d *damage) endpoint(id string) {
	if d.endpoints == nil {
		d.endpoints = map[string]bool{}
	}
	d.endpoints[id] = true
}

func (d *damage) set(id string) {
	if d.sets == nil {
		d.sets = map[string]bool{}
	}
	d.sets[id] = true
}

func (d *damage) any() bool { return d.all || len(d.endpoints)+len(d.sets) > 0 }

// hides reports whether the damage can influence an endpoint in a direction.
func (d *damage) hides(id string, dir hns.DirectionType, ours []hns.ACL, sets []hns.SetPolicy) bool {
	if d.all || d.endpoints[id] {
		return true
	}
	if len(d.sets) == 0 {
		return false
	}
	return slices.ContainsFunc(ours, func(a hns.ACL) bool {
		return a.Direction == dir && slices.ContainsFunc(a.SetIDs(), func(set string) bool {
			return d.sets[set] || slices.ContainsFunc(sets, func(s hns.SetPolicy) bool {
				return s.ID == set && slices.ContainsFunc(s.Values, func(v string) bool { return d.sets[v] })
			})
		})
	})
}

// reached remembers the node as it is when everything is programmed.
func (w *watch) reached(sim *hnsfault.Sim, c oracle.Cluster) {
	clear(w.before)
	clear(w.right)
	for _, e := range sim.Endpoints() {
		w.before[e.ID] = w.ours[e.ID]
		w.right[e.ID] = podOf(c, e)
	}
}

// newborn reports whether an endpoint was never right for the pod that has it now.
func (w *watch) newborn(e hnssim.SimEndpoint, c oracle.Cluster) bool {
	if uid, ok := w.right[e.ID]; ok && uid != podOf(c, e) {
		delete(w.right, e.ID) // it may come back
	}
	_, ok := w.right[e.ID]
	return !ok
}

// podOf returns the UID of the pod that an endpoint belongs to, "" for none.
func podOf(c oracle.Cluster, e hnssim.SimEndpoint) types.UID {
	if home := oracle.Residents(c, e.Addrs[0]); len(home) > 0 {
		return home[0].UID
	}
	return ""
}

// check asks about every packet after a write (I4). What may be said:
//
//   - what some subset of the outstanding changes gives, each object whole, and
//     for all packets of an endpoint in one direction the same subset;
//   - between a pod's old and its new address, what the pod says to itself, with
//     its rules of the one version and its labels of the other;
//   - a port that a rule of the endpoint knows by name may be closed although all
//     else of the pod that serves it under a new number is there;
//   - on an endpoint that never had rules of ours, anything may pass;
//   - where a size limit splits the change of one object, less may pass;
//   - once HNS refused a set, less may pass: what needs it is left out;
//   - on an endpoint that was never right for its pod, as far as the process knows,
//     less may pass once a call failed: its block goes first, alone;
//   - nothing is asked of an endpoint without a pod of the node, as it keeps what
//     it has, nor, until all is programmed, of one with leftovers of an earlier pod
//     that was gone before anything outstanding began;
//   - nor where somebody else's damage is not repaired yet.
func (r *replay) check(at string) {
	sets, now := r.sim.Sets(), cluster(r.todo.now.values())
	for _, e := range r.sim.Endpoints() {
		blockFirst := r.fired && r.watch.newborn(e, now)
		var ours []hns.ACL
		if !r.watch.ours[e.ID] || len(r.watch.damage.sets) > 0 {
			ours, _ = hns.Endpoint{Policies: e.Policies}.Split()
			r.watch.ours[e.ID] = r.watch.ours[e.ID] || len(ours) > 0
		}
		all := map[hns.DirectionType]*seen{hns.In: {}, hns.Out: {}}
		for _, p := range r.sc.packets[e.Addrs[0]] {
			if r.watch.damage.hides(e.ID, p.dir, ours, sets) {
				continue
			}
			v, err := r.sim.Trace(e.ID, p.dir, p.Packet)
			if err != nil {
				r.fail("%s: %v", at, err)
			}
			a := r.todo.answers(p)
			switch {
			case a.has(v.Allowed):
				late := a.named && !v.Allowed // the rule for a number that comes into use
				if r.watch.ours[e.ID] && a.ownerNow && a.ownerBefore && !a.self && !late && !blockFirst && !r.refused {
					all[p.dir].add(p, v.Allowed)
				}
			case v.Allowed && !r.watch.ours[e.ID]:
			case !v.Allowed && (r.sc.splits || blockFirst || r.refused):
			case !a.ownerNow || !a.ownerBefore && r.watch.before[e.ID]:
			default:
				r.fail("%s: on %s %s %v -> %v %d/%d is allowed=%v; allowed are open=%v closed=%v, in the end open=%v\nrules: %+v",
					at, e.ID, p.dir, p.Src, p.Dst, p.Protocol, p.DstPort, v.Allowed, a.open, a.closed, a.newest, v.Matched)
			}
		}
		for dir, s := range all {
			if !r.sc.splits && !r.todo.whole(*s) {
				r.fail("%s: on %s %s no one subset of the outstanding changes gives all of %+v %s", at, e.ID, dir, s.packets, s.passed)
			}
		}
	}
}

// checkProgrammed: the dataplane says that everything is in HNS. So every packet
// has the verdict of the API server's state, at every endpoint that the process
// has seen or that ever had rules of ours.
func (r *replay) checkProgrammed() {
	for _, e := range r.sim.Endpoints() {
		for _, p := range r.sc.packets[e.Addrs[0]] {
			v, err := r.sim.Trace(e.ID, p.dir, p.Packet)
			if err != nil {
				r.fail("%v", err)
			}
			a := r.todo.answers(p)
			if a.ownerNow && v.Allowed != a.newest && (!r.refused && !a.doubt || v.Allowed) && (r.watch.seen[e.ID] || !v.Allowed || r.watch.ours[e.ID]) {
				r.fail("all is said to be programmed: on %s %s %v -> %v %d/%d is allowed=%v, not as the oracle says\nrules: %+v",
					e.ID, p.dir, p.Src, p.Dst, p.Protocol, p.DstPort, v.Allowed, v.Matched)
			}
		}
	}
}
