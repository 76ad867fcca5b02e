package desired

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	// maxNumbers is the limit of numbers under which one namespace may serve a named port. Each
	// number takes one ACL per peer in the namespace. A typical namespace uses a handful of
	// numbers per name. The limit is per namespace, so namespaces do not compete for it. The
	// limit of ACLs of a pod bounds the total on the pod (numbersEach).
	maxNumbers = 64
	// maxUnused is the limit of unused numbers that stay in an endpoint's rules until its next
	// Update. More unused numbers cause an Update, so that a tenant cannot fill endpoints by
	// creating and deleting pods with ever different numbers.
	maxUnused = 64
)

// viewKey names a view.
type viewKey struct {
	acl.Reach
	port  string
	proto policy.Protocol
}

// String describes a view for a warning.
func (key viewKey) String() string {
	return fmt.Sprintf("%s/%s towards %s", key.port, key.proto, key.Reach)
}

// view has the numbers under which pods within a reach serve a named port. The policies of one
// namespace share it.
type view struct {
	key     viewKey
	port    *namedPort
	match   policy.LabelMatcher // of the namespaces of a selector; nil without one
	users   map[policy.Key]*policyState
	numbers []uint16       // the numbers within the limit, sorted
	rank    map[uint16]int // of each number: its lowest index among the sorted numbers of a namespace, -1 in the policy's own namespace
	counts  map[string]int // how many numbers each namespace has
	over    []string       // the namespaces with more than maxNumbers, sorted
	settled bool           // numbers was computed at least once
}

// has reports whether pods of a namespace may be within the view's reach.
func (fs *namedPorts) has(v *view, namespace string) bool {
	switch v.key.Among.Kind() {
	case ipsets.KindNamespace:
		return v.key.Among.Text() == namespace
	case ipsets.KindNamespaceSelector:
		labels, known := fs.among.labels(namespace)
		return known && v.match.Matches(labels)
	default:
		return true
	}
}

// use gives a policy the views that its egress rules need. policy.SizeOf bounds their number.
func (fs *namedPorts) use(ps *policyState) {
	for _, r := range ps.Rules {
		named := acl.NamedPorts(r.Ports)
		if r.Direction != policy.Egress || len(named) == 0 {
			continue
		}
		seen := map[acl.Reach]bool{}
		for _, peer := range r.Peers {
			at := acl.ReachOf(ps.own(), peer)
			if seen[at] {
				continue
			}
			seen[at] = true
			for _, port := range named {
				key := viewKey{at, port.Name, port.Protocol}
				if !slices.ContainsFunc(ps.views[at], func(v *view) bool { return v.key == key }) {
					fs.view(key, peer, ps)
				}
			}
		}
	}
}

// view makes a policy a user of a view. The cost of the first view of a named port is linear in the
// pods.
func (fs *namedPorts) view(key viewKey, peer policy.Peer, ps *policyState) {
	f := fs.get(portKey{key.port, key.proto, key.Blocks}, peer.Blocks)
	if f.serving == nil {
		f.serving = map[string]map[uint16]int{}
		for p := range fs.among.all() {
			if number, ok := p.serves(f.portKey, f.prefixes); ok {
				f.count(p.Namespace, number, 1)
			}
		}
	}
	v := f.views[key]
	if v == nil {
		v = &view{key: key, port: f, users: map[policy.Key]*policyState{}}
		if key.Among.Kind() == ipsets.KindNamespaceSelector {
			at := slices.IndexFunc(ps.Sets, func(def policy.SetDef) bool { return def.Name == key.Among || def.Name == key.Among.Deny() })
			v.match = ps.Sets[at].Namespaces // a policy defines what its rules name, maybe as a deny twin alone
		}
		f.views[key] = v
		fs.stale[v] = true
	}
	v.users[ps.Key] = ps
	if ps.views == nil {
		ps.views = map[acl.Reach][]*view{}
	}
	ps.views[key.Reach] = append(ps.views[key.Reach], v)
}

// leave ends a policy's use of its views.
func (fs *namedPorts) leave(ps *policyState) {
	for _, views := range ps.views {
		for _, v := range views {
			if v.users[ps.Key] == ps {
				delete(v.users, ps.Key)
			}
			if len(v.users) == 0 {
				delete(fs.stale, v)
				delete(v.port.views, v.key)
				fs.tidy(v.port)
			}
		}
	}
	ps.views = nil
}

// touch marks the views of a named port that see a namespace to be settled again.
func (fs *namedPorts) touch(f *namedPort, namespace string) {
	for _, v := range f.views {
		if fs.has(v, namespace) {
			fs.stale[v] = true
		}
	}
}

// relabeled marks the views that may begin or cease to see a namespace to be settled again.
func (fs *namedPorts) relabeled(namespace string) {
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

// settle recomputes the numbers of the views whose pods or namespaces changed. A new number causes
// the rules to be rendered again. A removed number does not: its rule matches no pod.
func (fs *namedPorts) settle() {
	for v := range fs.stale {
		was, over, settled := v.numbers, v.over, v.settled
		v.numbers, v.rank, v.counts = fs.choose(v)
		v.over = v.above(maxNumbers)
		v.settled = true
		switch {
		case settled && slices.ContainsFunc(v.numbers, func(n uint16) bool { return !slices.Contains(was, n) }):
			fs.render(v, false)
		case !slices.Equal(v.over, over), settled && len(v.numbers) < len(was):
			fs.render(v, true) // a Deny may now cover all ports, or single numbers again
		}
	}
	clear(fs.stale)
}

// above returns the namespaces with more than each numbers, sorted.
func (v *view) above(each int) (over []string) {
	for namespace, n := range v.counts {
		if n > each {
			over = append(over, namespace)
		}
	}
	slices.Sort(over)
	return over
}

// choose returns the numbers of a view that are within the limit, sorted, their ranks, and how many
// numbers each namespace has. Of each namespace it takes the maxNumbers lowest numbers.
func (fs *namedPorts) choose(v *view) (numbers []uint16, rank map[uint16]int, counts map[string]int) {
	rank, counts = map[uint16]int{}, map[string]int{}
	for namespace, in := range v.port.serving {
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

// served returns the numbers of a view and the unused numbers that may stay in rules, sorted. Of
// each namespace other than the policy's own it returns at most the each lowest numbers.
func (v *view) served(each int) []acl.ServedPort {
	var unused []uint16
	for number, sets := range v.port.sets {
		if !v.uses(number) && slices.Contains(sets, v.port.set(number)) {
			unused = append(unused, number)
		}
	}
	slices.Sort(unused)
	unused = unused[:min(len(unused), maxUnused)]
	out := make([]acl.ServedPort, 0, len(v.numbers)+len(unused))
	for _, list := range [][]uint16{v.numbers, unused} {
		for _, n := range list {
			if v.rank[n] >= each {
				continue
			}
			out = append(out, acl.ServedPort{Port: v.port.named(), Set: v.port.set(n), Number: n, Unused: !v.uses(n)})
		}
	}
	slices.SortStableFunc(out, func(a, b acl.ServedPort) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// uses reports whether a number is within the limit and in use.
func (v *view) uses(number uint16) bool {
	_, used := slices.BinarySearch(v.numbers, number)
	return used
}
