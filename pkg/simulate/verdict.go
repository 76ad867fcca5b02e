package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Verdict says whether one end may open a connection to another.
type Verdict struct {
	From     string          `json:"from"` // namespace/name, or an address
	To       string          `json:"to"`
	Port     uint16          `json:"port"`
	Protocol policy.Protocol `json:"protocol"`
	Allowed  bool            `json:"allowed"`
	Ingress  *Side           `json:"ingress"` // at To; nil: on another node, not judged
	Egress   *Side           `json:"egress"`  // at From

	traced bool // asked for by itself
}

// Side is the verdict at one end.
type Side struct {
	Allowed bool `json:"allowed"`
	// Policy is the first, by namespace/name, of those that allow the packet, or
	// when it is denied of those that isolate the pod; "" when no policy did.
	Policy string `json:"policy"`
	// Rules are the rules that decided.
	Rules []hns.ACL `json:"-"`
}

// errNoPod is a question about a pod that cannot be asked about.
var errNoPod = errors.New("no such pod")

// judge answers questions about one moment. Its dump and the simulator's state
// must not move meanwhile.
type judge struct {
	sim   *hnssim.Sim
	node  string
	pods  []dataplane.PodDump // sorted
	byPod map[string]dataplane.PodDump
	// byAddr are the pods that own their addresses; isolating are the policies
	// that isolate a pod, the first of each direction.
	byAddr    map[netip.Addr]dataplane.PodDump
	isolating map[string]*[2]string
}

func newJudge(sim *hnssim.Sim, node string, d dataplane.Dump) *judge {
	j := &judge{
		sim: sim, node: node, pods: d.Pods,
		byPod: map[string]dataplane.PodDump{}, byAddr: map[netip.Addr]dataplane.PodDump{}, isolating: map[string]*[2]string{},
	}
	for _, p := range d.Pods {
		j.byPod[p.Pod] = p
		if addr, err := netip.ParseAddr(p.Addr); err == nil && p.Owner {
			j.byAddr[addr] = p
		}
	}
	for _, p := range d.Policies {
		isolates := [2]bool{policy.Ingress: p.Ingress, policy.Egress: p.Egress}
		for _, pod := range p.Selected {
			first := j.isolating[pod]
			if first == nil {
				first = &[2]string{}
				j.isolating[pod] = first
			}
			for _, dir := range policy.Directions {
				if isolates[dir] && first[dir] == "" { // they come sorted
					first[dir] = p.Policy
				}
			}
		}
	}
	j.shareDoubt()
	return j
}

// shareDoubt has pods between which nobody knows whose their address is isolated by
// what isolates any of them, as their endpoints are.
func (j *judge) shareDoubt() {
	byAddr := map[string]*[2]string{}
	for i := range j.pods {
		p := &j.pods[i]
		if !p.InDoubt {
			continue
		}
		all := byAddr[p.Addr]
		if all == nil {
			all = &[2]string{}
			byAddr[p.Addr] = all
		}
		for dir, first := range cmp.Or(j.isolating[p.Pod], &[2]string{}) {
			if first != "" && (all[dir] == "" || first < all[dir]) {
				all[dir] = first
			}
		}
		j.isolating[p.Pod] = all
	}
}

// end is one side of a connection.
type end struct {
	name  string // as given
	addr  netip.Addr
	local bool               // a pod of this node
	pod   *dataplane.PodDump // the owner of addr; nil when there is none
	other bool               // a pod of another node
}

// end finds a pod by its name, or by its address.
func (j *judge) end(name string) (end, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return j.at(name, addr, nil), nil
	}
	p, ok := j.byPod[name]
	switch {
	case !ok:
		return end{}, fmt.Errorf("%s: %w; check namespace and name", name, errNoPod)
	case p.Finished:
		return end{}, fmt.Errorf("%s: %w: it has finished", name, errNoPod)
	case p.Addr == "":
		return end{}, fmt.Errorf("%s: %w with an IPv4 address: give the pod a status.podIP", name, errNoPod)
	}
	addr, err := netip.ParseAddr(p.Addr)
	if err != nil {
		return end{}, fmt.Errorf("pod %s: %w", name, err)
	}
	return j.at(name, addr, &p), nil
}

// at returns the end at an address. The pod that owns it is the one there,
// whichever was named.
func (j *judge) at(name string, addr netip.Addr, named *dataplane.PodDump) end {
	e := end{name: name, addr: addr}
	if owner, ok := j.byAddr[addr]; ok {
		e.pod = &owner
		named = &owner
	}
	if named != nil {
		e.local, e.other = named.Local, !named.Local
	}
	return e
}

// all answers every question, in order.
func (j *judge) all(ctx context.Context, q questions) iter.Seq2[Verdict, error] {
	return func(yield func(Verdict, error) bool) {
		if len(q.matrix) > 0 {
			ends, err := j.population()
			if err != nil {
				yield(Verdict{}, err)
				return
			}
			for _, p := range q.matrix {
				if !j.matrix(ctx, ends, p, yield) {
					return
				}
			}
		}
		for _, probe := range q.trace {
			from, to, err := j.ends(probe)
			if err != nil {
				yield(Verdict{}, err)
				return
			}
			if !j.judged(from, to) {
				continue
			}
			v, err := j.verdict(from, to, probe.port)
			v.traced = true
			if !yield(v, err) {
				return
			}
		}
	}
}

// check finds what is wrong with questions before they are answered.
func (j *judge) check(q questions) error {
	for _, probe := range q.trace {
		if _, _, err := j.ends(probe); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) ends(p probe) (from, to end, err error) {
	if from, err = j.end(p.from); err == nil {
		to, err = j.end(p.to)
	}
	if err != nil {
		err = fmt.Errorf("trace %s->%s: %w", p.from, p.to, err)
	}
	return from, to, err
}

// population returns the pods of the matrix: those that run in the pod network.
func (j *judge) population() ([]end, error) {
	var ends []end
	for _, p := range j.pods {
		if p.HostNetwork || p.Finished || p.Addr == "" {
			continue
		}
		e, err := j.end(p.Pod)
		if err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	return ends, nil
}

// matrix answers for every ordered pair and reports whether to go on.
func (j *judge) matrix(ctx context.Context, ends []end, p port, yield func(Verdict, error) bool) bool {
	for _, from := range ends {
		for _, to := range ends {
			if from.name == to.name || !j.judged(from, to) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(Verdict{}, err)
				return false
			}
			if !yield(j.verdict(from, to, p)) {
				return false
			}
		}
	}
	return true
}

// judged reports whether there is anything to say about a pair here: with a
// node, one end must be a pod there.
func (j *judge) judged(from, to end) bool { return j.node == "" || from.local || to.local }

// verdict traces one packet at both ends.
func (j *judge) verdict(from, to end, p port) (Verdict, error) {
	v := Verdict{From: from.name, To: to.name, Port: p.number, Protocol: p.protocol, Allowed: true}
	packet := hnssim.Packet{Src: from.addr, Dst: to.addr, Protocol: protocols[p.protocol], DstPort: p.number}
	var err error
	if v.Ingress, err = j.side(to, policy.Ingress, packet); err != nil {
		return Verdict{}, err
	}
	if v.Egress, err = j.side(from, policy.Egress, packet); err != nil {
		return Verdict{}, err
	}
	for _, side := range []*Side{v.Ingress, v.Egress} {
		v.Allowed = v.Allowed && (side == nil || side.Allowed)
	}
	return v, nil
}

var protocols = map[policy.Protocol]uint8{policy.TCP: 6, policy.UDP: 17, policy.SCTP: 132}

// side asks the endpoints of one end. What a pod says to itself never reaches
// the switch, and what is no pod has no endpoint.
func (j *judge) side(e end, dir policy.Direction, packet hnssim.Packet) (*Side, error) {
	if e.other {
		return nil, nil //nolint:nilnil // not judged is an answer
	}
	side := &Side{Allowed: true}
	if e.pod == nil || packet.Src == packet.Dst {
		return side, nil
	}
	direction := hns.In
	if dir == policy.Egress {
		direction = hns.Out
	}
	for _, id := range e.pod.Endpoints {
		v, err := j.sim.Trace(id, direction, packet)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", e.pod.Pod, err)
		}
		if v.Allowed && !side.Allowed {
			continue // one endpoint that denies decides
		}
		side.Allowed, side.Rules, side.Policy = v.Allowed, v.Matched, ""
		if !v.Allowed {
			if first := j.isolating[e.pod.Pod]; first != nil {
				side.Policy = first[dir]
			}
			continue
		}
		for _, acl := range v.Matched {
			key, ok := dataplane.PolicyOfACL(acl.ID)
			if ok && (side.Policy == "" || key.String() < side.Policy) {
				side.Policy = key.String()
			}
		}
	}
	return side, nil
}
