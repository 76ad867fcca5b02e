package dataplane

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// familyKey names a named port as egress rules use it: towards the pods that
// serve it, or with an ipBlock towards those inside the block.
type familyKey struct {
	port   string
	proto  policy.Protocol
	blocks string // canonical text, "" for everywhere
}

// familyOf returns the family that a named egress port of a peer belongs to.
func familyOf(peer policy.Peer, p policy.Port) familyKey {
	return familyKey{p.Name, p.Protocol, familyBlocks(peer.Blocks)}
}

// familyBlocks names blocks in a set's name. Many of them are cut short and
// told apart by a hash, as the name of a set should stay readable.
func familyBlocks(blocks []netip.Prefix) string {
	if len(blocks) == 0 {
		return ""
	}
	text := blockText(blocks)
	if len(blocks) <= 4 {
		return text
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%s+%d-%x", blocks[0], len(blocks)-1, h.Sum(nil))
}

// family keeps one set for every number under which a pod serves the port. It
// lives as long as it has users or one of its sets is held.
type family struct {
	key    familyKey
	blocks []netip.Prefix
	users  map[policy.Key]*policyState
	// numbers has every number whose set is held: true while pods serve it and
	// the family holds it, false while only endpoints still name it, of whatever
	// process.
	numbers map[uint16]bool
}

// set names the family's set for a number.
func (f *family) set(number uint16) ipsets.Name {
	if f.key.blocks == "" {
		return ipsets.NamedPort(f.key.port, string(f.key.proto), number)
	}
	return ipsets.NamedPortIn(f.key.blocks, f.key.port, string(f.key.proto), number)
}

// ref is how the family holds the set of a number in use.
func (f *family) ref() ipsets.Ref {
	return ipsets.Ref{Kind: ipsets.RefSelector, Owner: fmt.Sprintf("port %s/%s@%s", f.key.port, f.key.proto, f.key.blocks)}
}

// number returns the number under which a member pod serves the family's port.
func (f *family) number(p *podState) (uint16, bool) {
	if p == nil || !p.inSets() {
		return 0, false
	}
	if len(f.blocks) > 0 && !slices.ContainsFunc(f.blocks, func(b netip.Prefix) bool { return b.Contains(p.Addr) }) {
		return 0, false
	}
	return p.port(f.key.port, f.key.proto)
}

// port resolves a named port of the pod itself.
func (p *podState) port(name string, proto policy.Protocol) (uint16, bool) {
	return portOf(p.Ports, name, proto)
}

func portOf(ports []PodPort, name string, proto policy.Protocol) (uint16, bool) {
	for _, port := range ports {
		if port.Name == name && port.Protocol == proto {
			return port.Number, true
		}
	}
	return 0, false
}

// families indexes the named ports that egress rules use. Guarded by
// Dataplane.mu.
type families struct {
	cache  *ipsets.Cache
	byKey  map[familyKey]*family
	byPort map[PodPort][]*family // by name and protocol; Number is 0
	// release lets go of a set; changed is called for the policies of a family
	// in which a number came into use.
	release func(ipsets.Name, ipsets.Ref)
	// serving yields the pods with a named port.
	serving func(name string, proto policy.Protocol) iter.Seq[*podState]
	changed func(*policyState)
}

// use makes a policy a user of the families of its egress rules.
func (fs *families) use(ps *policyState) {
	for _, rule := range ps.Rules {
		for _, port := range rule.Ports {
			if rule.Direction != policy.Egress || port.Name == "" {
				continue
			}
			f := fs.family(familyOf(rule.Peer, port), rule.Peer.Blocks)
			idle := len(f.users) == 0
			f.users[ps.Key] = ps
			if !slices.Contains(ps.families, f) {
				ps.families = append(ps.families, f)
			}
			if !idle {
				continue
			}
			for p := range fs.serving(f.key.port, f.key.proto) {
				if number, ok := f.number(p); ok {
					fs.join(f, number, p.Addr)
				}
			}
		}
	}
}

// family returns the family of a key, a new one if need be.
func (fs *families) family(key familyKey, blocks []netip.Prefix) *family {
	if f := fs.byKey[key]; f != nil {
		return f
	}
	f := &family{key: key, blocks: blocks, users: map[policy.Key]*policyState{}, numbers: map[uint16]bool{}}
	fs.byKey[key] = f
	at := PodPort{Name: key.port, Protocol: key.proto}
	fs.byPort[at] = append(fs.byPort[at], f)
	return f
}

// define feeds the set of a number that only endpoints name. It counts as unused,
// as one that went out of use while they named it.
func (fs *families) define(set ipsets.Name) {
	key, blocks, number, ok := fs.parse(set)
	if !ok || !fs.cache.Define(set) {
		return
	}
	f := fs.family(key, blocks)
	f.numbers[number] = false
	for p := range fs.serving(key.port, key.proto) {
		if served, ok := f.number(p); ok && served == number {
			fs.cache.AddAddr(set, p.Addr)
		}
	}
	for _, ps := range f.users {
		fs.changed(ps)
	}
}

// parse reads a family and a number off the name of its set. Blocks that were cut
// short are known only while a policy names them.
func (fs *families) parse(set ipsets.Name) (key familyKey, blocks []netip.Prefix, number uint16, ok bool) {
	text, in, _ := strings.Cut(set.Text(), "@")
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return familyKey{}, nil, 0, false
	}
	n, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		return familyKey{}, nil, 0, false
	}
	key, number = familyKey{parts[0], policy.Protocol(parts[1]), in}, uint16(n)
	if f := fs.byKey[key]; f != nil {
		blocks = f.blocks
	} else {
		blocks = parseBlocks(in)
	}
	f := family{key: key}
	return key, blocks, number, familyBlocks(blocks) == in && f.set(number) == set
}

// parseBlocks is the inverse of blockText; what is no block is left out.
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

// leave ends a policy's use of its families.
func (fs *families) leave(ps *policyState) {
	for _, f := range ps.families {
		if f.users[ps.Key] == ps {
			delete(f.users, ps.Key)
		}
		if len(f.users) > 0 {
			continue
		}
		for _, number := range slices.Sorted(maps.Keys(f.numbers)) {
			fs.idle(f, number)
		}
		fs.prune(f)
	}
	ps.families = nil
}

// prune forgets a family without users and numbers.
func (fs *families) prune(f *family) {
	if len(f.users) > 0 || len(f.numbers) > 0 {
		return
	}
	delete(fs.byKey, f.key)
	at := PodPort{Name: f.key.port, Protocol: f.key.proto}
	fs.byPort[at] = slices.DeleteFunc(fs.byPort[at], func(o *family) bool { return o == f })
	if len(fs.byPort[at]) == 0 {
		delete(fs.byPort, at)
	}
}

// leave takes a pod out of the sets of the ports that it served, but for those
// that it goes on serving.
func (fs *families) leavePod(was, is *podState) {
	for _, f := range fs.of(was) {
		if number, ok := f.number(was); ok && !f.same(was, is) {
			fs.part(f, number, was.Addr)
		}
	}
}

// enterPod puts a pod into the sets of the ports that it serves now.
func (fs *families) enterPod(was, is *podState) {
	for _, f := range fs.of(is) {
		if number, ok := f.number(is); ok && !f.same(was, is) {
			fs.join(f, number, is.Addr)
		}
	}
}

// same reports whether a pod serves the port as it did.
func (f *family) same(was, is *podState) bool {
	before, had := f.number(was)
	after, has := f.number(is)
	return had && has && before == after && was.Addr == is.Addr
}

// of returns the families that a port of the pod may belong to; p may be nil.
func (fs *families) of(p *podState) []*family {
	if p == nil {
		return nil
	}
	var out []*family
	for _, port := range p.Ports {
		out = append(out, fs.byPort[PodPort{Name: port.Name, Protocol: port.Protocol}]...)
	}
	return out
}

func (fs *families) join(f *family, number uint16, addr netip.Addr) {
	set := f.set(number)
	if len(f.users) > 0 && !f.numbers[number] {
		f.numbers[number] = true
		fs.cache.Hold(set, f.ref())
		for _, ps := range f.users {
			fs.changed(ps)
		}
	}
	if fs.cache.Has(set) {
		fs.cache.AddAddr(set, addr)
	}
}

// part takes an address out. The last one leaves the number behind, unused,
// until nothing names its set any more (forget).
func (fs *families) part(f *family, number uint16, addr netip.Addr) {
	fs.cache.RemoveAddr(f.set(number), addr)
	if fs.cache.Len(f.set(number)) == 0 {
		fs.idle(f, number)
	}
}

// idle lets go of a number's set, if the family holds it.
func (fs *families) idle(f *family, number uint16) {
	if f.numbers[number] {
		f.numbers[number] = false
		fs.release(f.set(number), f.ref())
	}
}

// forget drops the number whose set nobody holds any more.
func (fs *families) forget(n ipsets.Name) {
	for _, f := range fs.byKey {
		for number := range f.numbers {
			if f.set(number) == n {
				delete(f.numbers, number)
				fs.prune(f)
				return
			}
		}
	}
}

// served returns the family's numbers, in order.
func (fs *families) served(key familyKey) []servedPort {
	f := fs.byKey[key]
	if f == nil {
		return nil
	}
	out := make([]servedPort, 0, len(f.numbers))
	for number, used := range f.numbers {
		out = append(out, servedPort{set: f.set(number), number: number, unused: !used})
	}
	slices.SortFunc(out, func(a, b servedPort) int { return cmp.Compare(a.number, b.number) })
	return out
}
