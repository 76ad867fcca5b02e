package desired

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// Budgets of named ports in egress rules. What is over them is closed, with a warning.
const (
	// maxNumbers is under how many numbers a named port counts in one namespace; each is an
	// ACL for each peer there. One name in one namespace has a handful. Each namespace has
	// them for itself, so no other one takes any from it; what all of them come to on a pod
	// has the budget of the pod (numbersEach).
	maxNumbers = 64
	// maxUnused is how many numbers that are out of use may stay in an endpoint's rules
	// until its next Update. More of them bring one: who makes pods come and go under
	// ever other numbers does not fill endpoints.
	maxUnused = 64
	// maxViews is how many views a policy has: named ports times the reaches that they
	// are towards. Twenty namespaces with ten names each are within it; a view costs a
	// few hundred bytes.
	maxViews = 256
	// maxBlockViews is how many of them are towards ipBlocks, where a named port says
	// little. Each counts the pods that serve it anew.
	maxBlockViews = 16
)

// viewKey names a view.
type viewKey struct {
	render.Reach
	port  string
	proto policy.Protocol
}

// String words a view for a warning.
func (key viewKey) String() string {
	return fmt.Sprintf("%s/%s towards %s", key.port, key.proto, key.Reach)
}

// view is under which numbers a named port is served within a reach. Policies of one
// namespace share it.
type view struct {
	key      viewKey
	portSets *portSets
	match    policy.LabelMatcher // of the namespaces of a selector; nil without one
	users    map[policy.Key]*policyState
	numbers  []uint16       // those that count, in order
	rank     map[uint16]int // how many lower ones a namespace has at least, -1 in the policy's own
	counts   map[string]int // numbers of each namespace
	over     []string       // the namespaces that have more than maxNumbers, in order
	settled  bool           // numbers was found once
}

// has reports whether pods of a namespace may be within the view's reach.
func (fs *namedPortSets) has(v *view, namespace string) bool {
	switch v.key.Among.Kind() {
	case ipsets.KindNamespace:
		return v.key.Among.Text() == namespace
	case ipsets.KindNamespaceSelector:
		labels, known := fs.labels(namespace)
		return known && v.match.Matches(labels)
	default:
		return true
	}
}

// use gives a policy the views that its egress rules need, in the order of its text as
// far as the budgets go.
func (fs *namedPortSets) use(ps *policyState) {
	var room viewRoom
	for rules := range ps.ByRule() {
		named := render.NamedPorts(rules[0].Ports)
		if rules[0].Direction != policy.Egress || len(named) == 0 {
			continue
		}
		seen := map[render.Reach]bool{}
		for _, rule := range rules {
			at := render.ReachOf(ps.own(), rule.Peer)
			if seen[at] {
				continue
			}
			seen[at] = true
			if !fs.useAt(ps, at, rule.Peer, named, &room) {
				fs.warn(ps)
				return
			}
		}
	}
	fs.warn(ps)
}

// viewRoom counts the views of a policy, and those of them within blocks.
type viewRoom struct{ all, blocks int }

// has reports whether there is room for one more view.
func (r viewRoom) has(at render.Reach) bool {
	return r.all < maxViews && (at.Blocks == "" || r.blocks < maxBlockViews)
}

// useAt gives a policy the views of named ports within one reach, and reports whether
// there is room for any more.
func (fs *namedPortSets) useAt(ps *policyState, at render.Reach, peer policy.Peer, named []policy.Port, room *viewRoom) (more bool) {
	if at.Blocks != "" && room.blocks == maxBlockViews { // however many blocks and ports there are
		ps.unviewed = cmp.Or(ps.unviewed, viewKey{at, named[0].Name, named[0].Protocol}.String())
		return true
	}
	for _, port := range named {
		key := viewKey{at, port.Name, port.Protocol}
		if slices.ContainsFunc(ps.views[at], func(v *view) bool { return v.key == key }) {
			continue
		}
		if room.has(at) {
			room.all++
			room.blocks += count(at.Blocks != "")
			fs.view(key, peer, ps)
			continue
		}
		ps.unviewed = cmp.Or(ps.unviewed, key.String())
		if room.all == maxViews {
			return false
		}
	}
	return true
}

// view makes a policy a user of a view.
func (fs *namedPortSets) view(key viewKey, peer policy.Peer, ps *policyState) {
	f := fs.portSets(portKey{key.port, key.proto, key.Blocks}, peer.Blocks)
	if len(f.views) == 0 {
		fs.count(f)
	}
	v := f.views[key]
	if v == nil {
		v = &view{key: key, portSets: f, users: map[policy.Key]*policyState{}}
		if key.Among.Kind() == ipsets.KindNamespaceSelector {
			at := slices.IndexFunc(ps.Sets, func(def policy.SetDef) bool { return def.Name == key.Among })
			v.match = ps.Sets[at].Namespaces // a policy defines what its rules name
		}
		f.views[key] = v
		fs.stale[v] = true
	}
	v.users[ps.Key] = ps
	if ps.views == nil {
		ps.views = map[render.Reach][]*view{}
	}
	ps.views[key.Reach] = append(ps.views[key.Reach], v)
}

// leave ends a policy's use of its views.
func (fs *namedPortSets) leave(ps *policyState) {
	for _, views := range ps.views {
		for _, v := range views {
			if v.users[ps.Key] == ps {
				delete(v.users, ps.Key)
			}
			if len(v.users) == 0 {
				delete(v.portSets.views, v.key)
				delete(fs.stale, v)
				fs.prune(v.portSets)
			}
		}
	}
	delete(fs.over, ps)
	ps.views, ps.unviewed = nil, ""
}

// touch has those views of a named port settled anew that see a namespace.
func (fs *namedPortSets) touch(f *portSets, namespace string) {
	for _, v := range f.views {
		if fs.has(v, namespace) {
			fs.stale[v] = true
		}
	}
}

// relabeled has the views settled that may see a namespace from now on, or no more.
func (fs *namedPortSets) relabeled(namespace string) {
	for _, f := range fs.byKey {
		if f.serving[namespace] == nil {
			continue
		}
		for _, v := range f.views {
			if v.match != nil {
				fs.stale[v] = true
			}
		}
	}
}

// settle finds the numbers of the views whose pods or namespaces are others now. Rules
// are rendered again where a number is new; one that went matches nothing.
func (fs *namedPortSets) settle() {
	for v := range fs.stale {
		was, over, settled := v.numbers, v.over, v.settled
		v.numbers, v.rank, v.counts = fs.choose(v)
		v.over = v.above(maxNumbers)
		v.settled = true
		if !slices.Equal(v.over, over) {
			for _, ps := range v.users {
				fs.warn(ps)
				fs.fewer(ps) // what is denied is no longer a matter of numbers, or is again
			}
		}
		if settled && slices.ContainsFunc(v.numbers, func(n uint16) bool { return !slices.Contains(was, n) }) {
			fs.tell(v)
		} else if settled && len(v.numbers) < len(was) {
			for _, ps := range v.users {
				fs.fewer(ps)
			}
		}
	}
	clear(fs.stale)
}

// above returns the namespaces with more than so many numbers, in order.
func (v *view) above(each int) (over []string) {
	for namespace, n := range v.counts {
		if n > each {
			over = append(over, namespace)
		}
	}
	slices.Sort(over)
	return over
}

// choose returns the numbers of a view that count, in order, with their ranks, and how many
// each namespace has: of each the lowest count.
func (fs *namedPortSets) choose(v *view) (numbers []uint16, rank map[uint16]int, counts map[string]int) {
	rank, counts = map[uint16]int{}, map[string]int{}
	for namespace, in := range v.portSets.serving {
		if !fs.has(v, namespace) {
			continue
		}
		counts[namespace] = len(in)
		for i, n := range slices.Sorted(maps.Keys(in))[:min(len(in), maxNumbers)] {
			if namespace == v.key.Own {
				i = -1
			}
			if was, ok := rank[n]; !ok || i < was {
				rank[n] = i
			}
		}
	}
	return slices.Sorted(maps.Keys(rank)), rank, counts
}

// served returns the numbers of a view, in order, and those that are out of use and
// may stay where they are. Of other namespaces than the policy's each has that many.
func (v *view) served(each int) []render.ServedPort {
	var unused []uint16
	for n := range v.portSets.defined {
		if !n.denies && !v.uses(n.number) {
			unused = append(unused, n.number)
		}
	}
	slices.Sort(unused)
	unused = unused[:min(len(unused), maxUnused)]
	out := make([]render.ServedPort, 0, len(v.numbers)+len(unused))
	for _, list := range [][]uint16{v.numbers, unused} {
		for _, n := range list {
			if v.rank[n] >= each {
				continue
			}
			port := policy.Port{Protocol: v.key.proto, Name: v.key.port}
			out = append(out, render.ServedPort{Port: port, Set: v.portSets.set(n), Number: n, Unused: !v.uses(n)})
		}
	}
	slices.SortStableFunc(out, func(a, b render.ServedPort) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// uses reports whether a number counts.
func (v *view) uses(number uint16) bool {
	_, used := slices.BinarySearch(v.numbers, number)
	return used
}

// tell has the users of a view rendered again.
func (fs *namedPortSets) tell(v *view) {
	for _, ps := range v.users {
		fs.changed(ps)
	}
}

// warn says what of a policy's named ports is over its budget, in words that are the
// same as long as anything is: how much it is may be others' doing.
func (fs *namedPortSets) warn(ps *policyState) {
	first := ""
	for _, views := range ps.views {
		for _, v := range views {
			if text := v.key.String(); len(v.over) > 0 && (first == "" || text < first) {
				first = text
			}
		}
	}
	delete(fs.over, ps)
	unviewed, surplus := "is left out", "connections to the other numbers are blocked"
	if ps.cluster() {
		unviewed, surplus = "is accepted nowhere, and denied on all ports", "the others are not accepted, and what is denied or passed is denied on all ports of such a namespace"
	}
	message := ""
	switch {
	case ps.unviewed != "":
		message = fmt.Sprintf("its egress rules have more than %d named ports towards different namespaces, or %d towards ipBlocks: "+
			"%s and what comes after it %s; write numbers, or make several policies", maxViews, maxBlockViews, ps.unviewed, unviewed)
	case first != "":
		message = fmt.Sprintf("a named port of its egress rules is served under more than %d numbers in one namespace: %s; "+
			"%s; write numbers, or serve the port under fewer", maxNumbers, first, surplus)
	default:
		return
	}
	object, kind := ObjectOf(ps.Key)
	fs.over[ps] = state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: message}
}
