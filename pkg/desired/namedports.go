package desired

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// portKey identifies a named port of egress rules: towards all pods that serve it, or with an
// ipBlock only towards the pods inside the block.
type portKey struct {
	port   string
	proto  policy.Protocol
	blocks string // canonical text, "" for everywhere
}

// set returns the name of the set for a number, not of its deny twin.
func (key portKey) set(number uint16) ipsets.Name {
	if key.blocks == "" {
		return ipsets.NamedPort(key.port, string(key.proto), number)
	}
	return ipsets.NamedPortIn(key.blocks, key.port, string(key.proto), number)
}

// named returns the port as rules have it.
func (key portKey) named() policy.Port { return policy.Port{Protocol: key.proto, Name: key.port} }

// namedPort is a named port of egress rules. A set of it has the pods of the whole cluster that serve
// it under one number; rules combine it with the sets of their peers. A view has the numbers within a
// reach. The named port is dropped with the last of its sets and views.
type namedPort struct {
	portKey
	prefixes []netip.Prefix           // of the blocks; disjoint and in order
	sets     map[uint16][]ipsets.Name // the held sets, by number: the plain one, its deny twin, or both
	views    map[viewKey]*view
	// serving counts the pods that serve the port, by namespace and number. It is nil without views.
	serving map[string]map[uint16]int
}

// count adds more to the number of pods of a namespace that serve the port under a number. It
// reports whether the number came into use in the namespace, or out of use.
func (f *namedPort) count(namespace string, number uint16, more int) (changed bool) {
	in := f.serving[namespace]
	if in == nil {
		in = map[uint16]int{}
		f.serving[namespace] = in
	}
	in[number] += more
	if in[number] > 0 {
		return in[number] == more
	}
	if delete(in, number); len(in) == 0 {
		delete(f.serving, namespace)
	}
	return true
}

// inBlocks reports whether one of the blocks contains an address. They are disjoint and sorted.
func inBlocks(blocks []netip.Prefix, addr netip.Addr) bool {
	after, _ := slices.BinarySearchFunc(blocks, addr, func(b netip.Prefix, addr netip.Addr) int {
		return cmp.Or(b.Addr().Compare(addr), -1) // a block that begins with the address sorts before it
	})
	return after > 0 && blocks[after-1].Contains(addr)
}

// port resolves a named port of the pod itself.
func (p *PodState) port(name string, proto policy.Protocol) (uint16, bool) {
	for _, port := range p.Ports {
		if port.Name == name && port.Protocol == proto {
			return port.Number, true
		}
	}
	return 0, false
}

// serves returns the number under which a pod in sets serves a named port, inside its blocks.
func (p *PodState) serves(key portKey, prefixes []netip.Prefix) (uint16, bool) {
	number, ok := p.port(key.port, key.proto)
	return number, ok && p.inSets && (len(prefixes) == 0 || inBlocks(prefixes, p.Addr))
}

// namedPorts are the named ports that egress rules use.
type namedPorts struct {
	among  *members
	byKey  map[portKey]*namedPort
	byPort map[PodPort][]*namedPort // by name and protocol; Number is 0
	stale  map[*view]bool           // to be settled
	// render is called for a view whose users need other rules: all pods that a user selects if a
	// number came into use, and otherwise only pods with lists of tiers.
	render func(v *view, tieredOnly bool)
}

func newNamedPorts(among *members) *namedPorts {
	return &namedPorts{among: among, byKey: map[portKey]*namedPort{}, byPort: map[PodPort][]*namedPort{}, stale: map[*view]bool{}}
}

// get returns the named port of a key, and makes it if it is missing.
func (fs *namedPorts) get(key portKey, prefixes []netip.Prefix) *namedPort {
	f := fs.byKey[key]
	if f == nil {
		f = &namedPort{portKey: key, prefixes: prefixes, sets: map[uint16][]ipsets.Name{}, views: map[viewKey]*view{}}
		fs.byKey[key] = f
		at := PodPort{Name: key.port, Protocol: key.proto}
		fs.byPort[at] = append(fs.byPort[at], f)
	}
	return f
}

// tidy ends the count of a named port without views, and drops one that has no sets either.
func (fs *namedPorts) tidy(f *namedPort) {
	if len(f.views) > 0 {
		return
	}
	f.serving = nil
	if len(f.sets) > 0 {
		return
	}
	delete(fs.byKey, f.portKey)
	at := PodPort{Name: f.port, Protocol: f.proto}
	fs.byPort[at] = slices.DeleteFunc(fs.byPort[at], func(o *namedPort) bool { return o == f })
	if len(fs.byPort[at]) == 0 {
		delete(fs.byPort, at)
	}
}

// eachOfPod visits the held sets of named ports that contain a pod.
func (fs *namedPorts) eachOfPod(p *PodState, visit func(ipsets.Name)) {
	for _, port := range p.Ports {
		for _, f := range fs.byPort[PodPort{Name: port.Name, Protocol: port.Protocol}] {
			if number, ok := p.serves(f.portKey, f.prefixes); ok {
				for _, n := range f.sets[number] {
					visit(n)
				}
			}
		}
	}
}

// count counts a pod as serving its ports (more is 1), or no longer (more is -1).
func (fs *namedPorts) count(p *PodState, more int) {
	for _, port := range p.Ports {
		for _, f := range fs.byPort[PodPort{Name: port.Name, Protocol: port.Protocol}] {
			if number, ok := p.serves(f.portKey, f.prefixes); ok && f.serving != nil && f.count(p.Namespace, number, more) {
				fs.touch(f, p.Namespace)
			}
		}
	}
}

// hold records that a set is held.
func (fs *namedPorts) hold(n ipsets.Name) {
	set, ok := fs.parse(n)
	if !ok {
		panic(fmt.Sprintf("BUG: rules name %s, which no named port has", n))
	}
	f := fs.get(set.portKey, set.prefixes)
	f.sets[set.served] = append(f.sets[set.served], n)
}

// release records that a set is not held any more.
func (fs *namedPorts) release(n ipsets.Name) {
	set, _ := fs.parse(n)
	f := fs.byKey[set.portKey]
	if f == nil {
		return
	}
	f.sets[set.served] = slices.DeleteFunc(f.sets[set.served], func(o ipsets.Name) bool { return o == n })
	if len(f.sets[set.served]) == 0 {
		delete(f.sets, set.served)
	}
	fs.tidy(f)
}

// portSet is what the name of a set of a named port says.
type portSet struct {
	portKey
	prefixes []netip.Prefix
	served   uint16 // the number
}

// contains reports whether the set contains a pod.
func (s *portSet) contains(p *PodState) bool {
	number, ok := p.serves(s.portKey, s.prefixes)
	return ok && number == s.served
}

// parse reads the definition of a set from its name. Blocks that the name shortens are known only
// while a policy uses them, or another set of them is held.
func (fs *namedPorts) parse(n ipsets.Name) (set portSet, ok bool) {
	text, in, _ := strings.Cut(n.Text(), "@")
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return set, false
	}
	number, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		return set, false
	}
	set = portSet{portKey{parts[0], policy.Protocol(parts[1]), in}, parseBlocks(in), uint16(number)}
	if f := fs.byKey[set.portKey]; f != nil {
		set.prefixes = f.prefixes
	}
	inOrder := slices.IsSortedFunc(set.prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	name := set.set(set.served)
	return set, inOrder && acl.BlocksInName(set.prefixes) == in && (name == n || name.Deny() == n)
}

// parseBlocks reads the blocks of a name of acl.BlocksInName that was not shortened. It skips
// other text.
func parseBlocks(text string) []netip.Prefix {
	var out []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		if b, err := netip.ParsePrefix(part); err == nil {
			out = append(out, b)
		} else if a, err := netip.ParseAddr(part); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

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
			at := acl.ReachOf(ps.namespace, peer)
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
