package torture

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// packet is what is asked at an endpoint.
type packet struct {
	dir hns.DirectionType
	hnssim.Packet
}

// own is the endpoint's side.
func (p packet) own() netip.Addr {
	if p.dir == hns.In {
		return p.Dst
	}
	return p.Src
}

// peer is the other side.
func (p packet) peer() netip.Addr {
	if p.dir == hns.In {
		return p.Src
	}
	return p.Dst
}

// answers says which verdicts a packet may have now.
type answers struct {
	open, closed bool // some subset of the outstanding changes opens, closes
	newest       bool // the verdict when all of them are done
	doubt        bool // then to block is right, too
	ownerBefore  bool // a pod of the node had the address when nothing was outstanding
	ownerNow     bool // one has it now
	self         bool // both ends are addresses of one pod, which moves
	named        bool // to a number that an outstanding pod gives a name
}

func (a answers) has(open bool) bool { return open && a.open || !open && a.closed }

// maxCombinations bounds the subsets that are tried for one packet.
const maxCombinations = 1 << 14

// outstanding is the API server's state with everything that the node may not
// have reached yet: for every object that changed since all was programmed its
// versions, the first one from then; nil where there was none.
type outstanding struct {
	now      apiObjects
	versions map[string][]*object
	memo     memo
	revs     string // cached; "" when stale
}

// memo keeps answers by outstanding versions, over all replays of a scenario.
type memo struct {
	answers map[string]map[packet]answers
	whole   map[string]bool
}

func newMemo() memo {
	return memo{answers: map[string]map[packet]answers{}, whole: map[string]bool{}}
}

func newOutstanding(m memo) *outstanding {
	return &outstanding{now: apiObjects{}, versions: map[string][]*object{}, memo: m}
}

// change takes an event in. A pod with another address than before is two
// changes: it has left the old one before it comes at the new one.
func (o *outstanding) change(e event) {
	before := maps.Clone(o.now)
	for _, key := range e.apply(o.now) {
		was, is := before[key], o.now[key]
		if was == is {
			continue
		}
		if o.versions[key] == nil {
			o.versions[key] = []*object{was}
		}
		if was.moves(is) {
			o.versions[key] = append(o.versions[key], is.left())
		}
		o.versions[key] = append(o.versions[key], is)
	}
	o.revs = ""
}

// done says that everything is programmed.
func (o *outstanding) done() {
	clear(o.versions)
	o.revs = ""
}

// fingerprint names the state with what is outstanding.
func (o *outstanding) fingerprint() string {
	if o.revs != "" {
		return o.revs
	}
	var b strings.Builder
	b.WriteString(o.now.revs())
	for _, key := range slices.Sorted(maps.Keys(o.versions)) {
		fmt.Fprintf(&b, "%s:", key)
		for _, v := range o.versions[key] {
			rev := 0
			if v != nil {
				rev = v.rev
			}
			fmt.Fprintf(&b, "%d,", rev)
		}
	}
	o.revs = b.String()
	return o.revs
}

// answers returns what is allowed for a packet.
func (o *outstanding) answers(p packet) answers {
	memo := o.memo.answers[o.fingerprint()]
	if memo == nil {
		memo = map[packet]answers{}
		o.memo.answers[o.fingerprint()] = memo
	}
	a, ok := memo[p]
	if !ok {
		a = o.compute(p)
		memo[p] = a
	}
	return a
}

// compute tries every subset of the changes that can matter to the packet, each
// object in any version that it had since all was programmed. A state in which
// nobody owns the endpoint, between two owners, is none that may show.
func (o *outstanding) compute(p packet) answers {
	fixed, moving := o.relevant(p)
	keys := slices.Sorted(maps.Keys(moving))
	at := func(which func(key string) []*object) oracle.Cluster {
		objects := slices.Clone(fixed)
		for _, key := range keys {
			objects = append(objects, which(key)...)
		}
		return cluster(objects)
	}
	var a answers
	before := at(func(key string) []*object { return one(moving[key][0]) })
	now := at(func(key string) []*object { return one(moving[key][len(moving[key])-1]) })
	a.ownerBefore, a.ownerNow = local(before, p.own()), local(now, p.own())
	a.newest, a.doubt = verdict(now, p)
	a.open, a.closed = a.newest, !a.newest || a.doubt
	ways, combinations := map[string][][]*object{}, 1
	for key, versions := range moving {
		meetings := p.meetings(versions)
		a.self = a.self || len(meetings) > 0
		a.named = a.named || p.dir == hns.Out && slices.ContainsFunc(versions, p.toNamed)
		for _, v := range versions {
			ways[key] = append(ways[key], one(v))
		}
		ways[key] = append(ways[key], meetings...)
		combinations *= len(ways[key])
	}
	if combinations > maxCombinations {
		panic(fmt.Sprintf("%d subsets of outstanding changes matter to %+v: make the scenario smaller", combinations, p))
	}
	for n := range combinations {
		rest := n
		c := at(func(key string) []*object {
			is := ways[key][rest%len(ways[key])]
			rest /= len(ways[key])
			return is
		})
		if a.ownerBefore && a.ownerNow && !local(c, p.own()) {
			continue
		}
		allowed, doubt := verdict(c, p)
		a.open, a.closed = a.open || allowed, a.closed || !allowed || doubt
		if a.open && a.closed {
			break
		}
	}
	return a
}

// one returns the version, if there is one.
func one(v *object) []*object {
	if v == nil {
		return nil
	}
	return []*object{v}
}

// meetings returns the pairs of versions of one pod that has both ends of the
// packet: it leaves the one and comes at the other. At the one its rules may still
// be those of the old version while the sets have the new one at the other: the
// pod meets itself, whom no policy is meant to keep out.
func (p packet) meetings(versions []*object) [][]*object {
	var out [][]*object
	for _, own := range versions {
		for _, peer := range versions {
			if own.at(p.own()) && peer.at(p.peer()) {
				out = append(out, []*object{own, peer})
			}
		}
	}
	return out
}

// toNamed reports whether the packet goes to a port of the pod that has a name.
func (p packet) toNamed(v *object) bool {
	return v.at(p.peer()) && slices.ContainsFunc(v.Pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool {
			return port.Name != "" && uint16(port.ContainerPort) == p.DstPort
		})
	})
}

// relevant returns the objects that the verdict can depend on: those that stay
// as they are, and the versions of those that may not be there yet.
func (o *outstanding) relevant(p packet) (fixed []*object, moving map[string][]*object) {
	moving = map[string][]*object{}
	spaces := map[string]bool{} // of the pods that may have one of the addresses
	addressed := func(v *object) bool {
		if !v.at(p.Src) && !v.at(p.Dst) {
			return false
		}
		spaces[v.Pod.Namespace] = true
		return true
	}
	pods := map[string]bool{}
	for key, v := range o.now {
		pods[key] = addressed(v)
	}
	for key, versions := range o.versions {
		for _, v := range versions {
			pods[key] = addressed(v) || pods[key]
		}
	}
	matters := func(v *object) bool {
		switch {
		case v == nil:
			return false
		case v.Pod != nil:
			return pods[v.key]
		case v.Namespace != nil:
			return spaces[v.Namespace.Name]
		case v.Policy != nil:
			return spaces[v.Policy.Namespace]
		case v.Cluster != nil:
			return p.dir == hns.In && len(v.Cluster.Spec.Ingress) > 0 || p.dir == hns.Out && len(v.Cluster.Spec.Egress) > 0
		case v.Peer != nil:
			return slices.ContainsFunc(v.Peer.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == p.peer().String() })
		default:
			return p.dir == hns.In
		}
	}
	for _, v := range o.now.values() {
		if o.versions[v.key] == nil && matters(v) {
			fixed = append(fixed, v)
		}
	}
	for key, versions := range o.versions {
		if slices.ContainsFunc(versions, matters) {
			moving[key] = versions
		}
	}
	return fixed, moving
}

// seen is what was seen at one endpoint in one direction: packets, and for each
// whether it passed.
type seen struct {
	packets []packet
	passed  []byte
}

func (s *seen) add(p packet, passed bool) {
	s.packets = append(s.packets, p)
	s.passed = append(s.passed, map[bool]byte{false: '-', true: '+'}[passed])
}

// maxWhole bounds the subsets that are tried for all packets at once.
const maxWhole = 1 << 9

// whole reports whether one and the same subset of the changes gives everything
// that was seen. Where too many subsets matter it does not say no.
func (o *outstanding) whole(s seen) bool {
	if len(s.packets) == 0 {
		return true
	}
	key := fmt.Sprint(o.fingerprint(), s.packets[0].dir, s.packets[0].own(), string(s.passed), len(s.packets))
	ok, known := o.memo.whole[key]
	if !known {
		ok = o.explains(s)
		o.memo.whole[key] = ok
	}
	return ok
}

func (o *outstanding) explains(s seen) bool {
	fixed, moving := map[string]*object{}, map[string][]*object{}
	for _, p := range s.packets {
		stay, move := o.relevant(p)
		for _, v := range stay {
			fixed[v.key] = v
		}
		for key, versions := range move {
			moving[key] = versions
		}
	}
	combinations := 1
	for _, versions := range moving {
		if combinations *= len(versions); combinations > maxWhole {
			return true
		}
	}
	keys := slices.Sorted(maps.Keys(moving))
	for n := range combinations {
		objects := slices.Collect(maps.Values(fixed))
		for _, key := range keys {
			if v := moving[key][n%len(moving[key])]; v != nil {
				objects = append(objects, v)
			}
			n /= len(moving[key])
		}
		if s.givenBy(cluster(objects)) {
			return true
		}
	}
	return false
}

// givenBy reports whether the oracle says everything that was seen.
func (s seen) givenBy(c oracle.Cluster) bool {
	for i, p := range s.packets {
		passed := s.passed[i] == '+'
		if allowed, doubt := verdict(c, p); allowed != passed && (passed || !doubt) {
			return false
		}
	}
	return true
}

var protocols = map[uint8]corev1.Protocol{6: corev1.ProtocolTCP, 17: corev1.ProtocolUDP, 132: corev1.ProtocolSCTP}

// verdict is the oracle's word on the side of the packet's endpoint. In doubt to block is
// right, whatever it is.
func verdict(c oracle.Cluster, p packet) (allowed, doubt bool) {
	side, out := oracle.Verdict(c, p.Src, p.Dst, protocols[p.Protocol], p.DstPort)
	if p.dir == hns.Out {
		side = out
	}
	return side.Allowed, side.Doubt
}
