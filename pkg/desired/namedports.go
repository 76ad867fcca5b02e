package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// portKey identifies a named port of egress rules: towards all pods that serve it, or with an
// ipBlock only towards those inside the block.
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

// namedPort is a named port that egress rules use.
type namedPort struct {
	portKey
	prefixes []netip.Prefix // of the blocks; disjoint and in order
}

// number returns the number under which a member pod serves the port; p may be nil.
func (f *namedPort) number(p *PodState) (uint16, bool) {
	if p == nil || !p.inSets() {
		return 0, false
	}
	number, ok := p.port(f.port, f.proto)
	return number, ok && (len(f.prefixes) == 0 || inBlocks(f.prefixes, p.Addr))
}

// portSet is a set of a named port: the pods of the whole cluster that serve it under a number.
// Rules combine it with the sets of their peers.
type portSet struct {
	namedPort
	served uint16
}

// contains reports whether the set contains a pod.
func (s *portSet) contains(p *PodState) bool {
	number, ok := s.number(p)
	return ok && number == s.served
}

// portViews is a named port with its views. It is dropped with its last view.
type portViews struct {
	namedPort
	sets  map[ipsets.Name]*portSet // of all named ports
	views map[viewKey]*view
	// serving counts the pods that serve the port, by namespace and number. The pods bound it.
	serving map[string]map[uint16]int
}

// count adds more to the number of pods of a namespace that serve the port under a number. It
// reports whether the number came into use in the namespace, or out of use.
func (f *portViews) count(namespace string, number uint16, more int) (changed bool) {
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

// namedPorts are the named ports that egress rules use, and their sets.
type namedPorts struct {
	among  *members
	sets   map[ipsets.Name]*portSet // those that are held
	byKey  map[portKey]*portViews
	byPort map[PodPort][]*portViews // by name and protocol; Number is 0
	stale  map[*view]bool           // to be settled
	// changed is called for the policies of a view in which a number came into use. fewer is
	// called if a number went out of use, because a list of tiers then loses its rules.
	changed, fewer func(*policyState)
}

func newNamedPorts(among *members) *namedPorts {
	return &namedPorts{
		among: among, sets: map[ipsets.Name]*portSet{}, byKey: map[portKey]*portViews{}, byPort: map[PodPort][]*portViews{}, stale: map[*view]bool{},
	}
}

// port returns the named port of a key. The cost of a new one is linear in the pods.
func (fs *namedPorts) port(key portKey, prefixes []netip.Prefix) *portViews {
	if f := fs.byKey[key]; f != nil {
		return f
	}
	f := &portViews{namedPort: namedPort{key, prefixes}, sets: fs.sets, views: map[viewKey]*view{}, serving: map[string]map[uint16]int{}}
	for p := range fs.among.all() {
		if number, ok := f.number(p); ok {
			f.count(p.Namespace, number, 1)
		}
	}
	fs.byKey[key] = f
	at := PodPort{Name: key.port, Protocol: key.proto}
	fs.byPort[at] = append(fs.byPort[at], f)
	return f
}

// forget drops a named port without views.
func (fs *namedPorts) forget(f *portViews) {
	delete(fs.byKey, f.portKey)
	at := PodPort{Name: f.port, Protocol: f.proto}
	fs.byPort[at] = slices.DeleteFunc(fs.byPort[at], func(o *portViews) bool { return o == f })
	if len(fs.byPort[at]) == 0 {
		delete(fs.byPort, at)
	}
}

// count adds a pod to those that serve its ports (more is 1), or removes it (-1). p may be nil.
func (fs *namedPorts) count(p *PodState, more int) {
	if p == nil {
		return
	}
	for _, port := range p.Ports {
		for _, f := range fs.byPort[PodPort{Name: port.Name, Protocol: port.Protocol}] {
			if number, ok := f.number(p); ok && f.count(p.Namespace, number, more) {
				fs.touch(f, p.Namespace)
			}
		}
	}
}

// parse reads the definition of a set from its name. Blocks that the name shortens are known only
// while a policy uses them.
func (fs *namedPorts) parse(set ipsets.Name) (*portSet, bool) {
	text, in, _ := strings.Cut(set.Text(), "@")
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, false
	}
	n, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		return nil, false
	}
	s := &portSet{namedPort{portKey{parts[0], policy.Protocol(parts[1]), in}, parseBlocks(in)}, uint16(n)}
	if f := fs.byKey[s.portKey]; f != nil {
		s.prefixes = f.prefixes
	}
	inOrder := slices.IsSortedFunc(s.prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	name := s.set(s.served)
	return s, inOrder && acl.BlocksInName(s.prefixes) == in && (name == set || name.Deny() == set)
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
