package desired

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// portKey names a named port as egress rules use it: towards the pods that
// serve it, or with an ipBlock towards those inside the block.
type portKey struct {
	port   string
	proto  policy.Protocol
	blocks string // canonical text, "" for everywhere
}

// portSets is one named port that egress rules use: it has one set for every number
// that a rule names, desired or there; the pods in it are those of the whole cluster, as
// rules AND it with the sets of their peers. It lives as long as it has views or sets.
type portSets struct {
	key    portKey
	blocks []netip.Prefix // disjoint and in order
	views  map[viewKey]*view
	// serving counts the pods that serve the port, by namespace and number, while there
	// are views. The pods bound it.
	serving map[string]map[uint16]int
	// defined are the numbers whose set is, and whether it is the deny twin. What
	// endpoints name bounds them.
	defined map[setNumber]bool
}

// setNumber tells the sets of a named port apart.
type setNumber struct {
	number uint16
	denies bool
}

// sets yields the sets for a number that are defined.
func (f *portSets) sets(number uint16) iter.Seq[ipsets.Name] {
	return func(yield func(ipsets.Name) bool) {
		set := f.set(number)
		if f.defined[setNumber{number, false}] && !yield(set) {
			return
		}
		if f.defined[setNumber{number, true}] {
			yield(set.Deny())
		}
	}
}

// set names the set for a number; its deny twin is another one.
func (f *portSets) set(number uint16) ipsets.Name {
	if f.key.blocks == "" {
		return ipsets.NamedPort(f.key.port, string(f.key.proto), number)
	}
	return ipsets.NamedPortIn(f.key.blocks, f.key.port, string(f.key.proto), number)
}

// number returns the number under which a member pod serves the port.
func (f *portSets) number(p *PodState) (uint16, bool) {
	if p == nil || !p.inSets() {
		return 0, false
	}
	number, ok := p.port(f.key.port, f.key.proto)
	return number, ok && (len(f.blocks) == 0 || inBlocks(f.blocks, p.Addr))
}

// inBlocks reports whether one of the blocks, disjoint and in order, has an address.
func inBlocks(blocks []netip.Prefix, addr netip.Addr) bool {
	after, _ := slices.BinarySearchFunc(blocks, addr, func(b netip.Prefix, addr netip.Addr) int {
		return cmp.Or(b.Addr().Compare(addr), -1) // one that begins with it is before it
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

// namedPortSets indexes the named ports that egress rules use.
type namedPortSets struct {
	cache  *ipsets.Cache
	among  *members
	byKey  map[portKey]*portSets
	byPort map[PodPort][]*portSets // by name and protocol; Number is 0
	stale  map[*view]bool          // to be settled
	// changed is called for the policies of a view in which a number came into use, fewer
	// for those of one in which a number is out of use: of a list of tiers its rules go.
	changed, fewer func(*policyState)
}

func newNamedPortSets(cache *ipsets.Cache, among *members) *namedPortSets {
	return &namedPortSets{
		cache: cache, among: among, byKey: map[portKey]*portSets{}, byPort: map[PodPort][]*portSets{}, stale: map[*view]bool{},
	}
}

// portSets returns the sets of a key, new ones if need be.
func (fs *namedPortSets) portSets(key portKey, blocks []netip.Prefix) *portSets {
	if f := fs.byKey[key]; f != nil {
		return f
	}
	f := &portSets{key: key, blocks: blocks, views: map[viewKey]*view{}, defined: map[setNumber]bool{}}
	fs.byKey[key] = f
	at := PodPort{Name: key.port, Protocol: key.proto}
	fs.byPort[at] = append(fs.byPort[at], f)
	return f
}

// count counts so many pods of a namespace more that serve the port under a number. It reports
// whether the number came into use in the namespace, or out of use.
func (f *portSets) count(namespace string, number uint16, more int) (changed bool) {
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

// fill feeds the set of a number that was just defined, with the pods that serve it.
func (fs *namedPortSets) fill(set ipsets.Name) {
	key, blocks, number, ok := fs.parse(set)
	if !ok {
		panic(fmt.Sprintf("BUG: rules name %s, which no named port has", set))
	}
	f := fs.portSets(key, blocks)
	f.defined[setNumber{number, set.Denies()}] = true
	for p := range fs.among.all() {
		if served, ok := f.number(p); ok && served == number {
			fs.cache.AddAddr(set, p.Addr)
		}
	}
}

// define feeds the set of a number that only endpoints name.
func (fs *namedPortSets) define(set ipsets.Name) {
	if key, _, _, ok := fs.parse(set); ok && fs.cache.Define(set) {
		fs.unused(key, set)
	}
}

// unused fills a set that was just defined, though no rule is to name it. Its number
// counts as unused, as one that went out of use while endpoints named it.
func (fs *namedPortSets) unused(key portKey, set ipsets.Name) {
	fs.fill(set)
	for _, v := range fs.byKey[key].views {
		fs.tell(v)
	}
}

// parse reads a named port and a number off the name of its set. Blocks that were cut
// short are known only while a policy names them.
func (fs *namedPortSets) parse(set ipsets.Name) (key portKey, blocks []netip.Prefix, number uint16, ok bool) {
	text, in, _ := strings.Cut(set.Text(), "@")
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return portKey{}, nil, 0, false
	}
	n, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		return portKey{}, nil, 0, false
	}
	key, number = portKey{parts[0], policy.Protocol(parts[1]), in}, uint16(n)
	if f := fs.byKey[key]; f != nil {
		blocks = f.blocks
	} else {
		blocks = parseBlocks(in)
	}
	f := portSets{key: key}
	inOrder := slices.IsSortedFunc(blocks, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return key, blocks, number, inOrder && acl.BlocksInName(blocks) == in && (f.set(number) == set || f.set(number).Deny() == set)
}

// parseBlocks reads blocks from a name of acl.BlocksInName that were not cut; what is no
// block is left out.
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

// prune forgets a named port without views and sets.
func (fs *namedPortSets) prune(f *portSets) {
	if len(f.views) == 0 {
		f.serving = nil
	}
	if len(f.views)+len(f.defined) > 0 {
		return
	}
	delete(fs.byKey, f.key)
	at := PodPort{Name: f.key.port, Protocol: f.key.proto}
	fs.byPort[at] = slices.DeleteFunc(fs.byPort[at], func(o *portSets) bool { return o == f })
	if len(fs.byPort[at]) == 0 {
		delete(fs.byPort, at)
	}
}

// eachSet visits the sets of the ports that a pod serves.
func (fs *namedPortSets) eachSet(p *PodState, visit func(ipsets.Name)) {
	for f, number := range fs.served(p) {
		for set := range f.sets(number) {
			visit(set)
		}
	}
}

// count counts a pod, which may be nil, among those that serve its ports, or no more.
func (fs *namedPortSets) count(p *PodState, more int) {
	for f, number := range fs.served(p) {
		if f.serving != nil && f.count(p.Namespace, number, more) {
			fs.touch(f, p.Namespace)
		}
	}
}

// served yields the named ports that a pod serves, with its numbers.
func (fs *namedPortSets) served(p *PodState) iter.Seq2[*portSets, uint16] {
	return func(yield func(*portSets, uint16) bool) {
		if p == nil {
			return
		}
		for _, port := range p.Ports {
			for _, f := range fs.byPort[PodPort{Name: port.Name, Protocol: port.Protocol}] {
				if number, ok := f.number(p); ok && !yield(f, number) {
					return
				}
			}
		}
	}
}

// forget drops the number whose set nobody holds any more.
func (fs *namedPortSets) forget(set ipsets.Name) {
	key, _, number, ok := fs.parse(set)
	if f := fs.byKey[key]; ok && f != nil {
		delete(f.defined, setNumber{number, set.Denies()})
		fs.prune(f)
	}
}
