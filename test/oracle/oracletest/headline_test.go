package oracletest

import (
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/plan"
)

// headline counts anew what the first lines of a plan count, from the oracle's verdicts alone:
// of all pairs of pods, and of each pod with what is no pod, over one port of each range in
// which no policy tells ports apart, and one address of each range in which none tells
// addresses apart.
func (x planned) headline() {
	ports, addrs := x.points()
	p := x.population(addrs)
	var between, with plan.Tally
	for _, pod := range p.stay {
		for _, other := range p.stay {
			if pod != other {
				x.count(&between, []netip.Addr{pod}, []netip.Addr{other}, ports)
			}
		}
		x.count(&with, []netip.Addr{pod}, p.outside, ports)
		x.count(&with, p.outside, []netip.Addr{pod}, ports)
	}
	require.Equal(x.w.t, between, x.plan.Between, "between pods")
	require.Equal(x.w.t, with, x.plan.WithOutside, "with addresses outside")
	all := plan.Tally{Flipped: between.Flipped + with.Flipped, Opened: between.Opened + with.Opened, Blocked: between.Blocked + with.Blocked}
	require.Equal(x.w.t, all, x.plan.Tally, "in all")
	require.Equal(x.w.t, []int{len(p.stay), len(p.stay) * max(len(p.stay)-1, 0)}, []int{x.plan.Pods, x.plan.Connections})
	come, gone := x.others(x.after, p.come, p, ports), x.others(x.before, p.gone, p, ports)
	gone.ByPolicy = 0 // nothing opens by what goes
	require.Equal(x.w.t, come, x.plan.NewPods, "of new pods")
	require.Equal(x.w.t, gone, x.plan.DeletedPods, "of deleted pods")
	for what, n := range map[string]int{
		"opened inside": between.Opened, "blocked inside": between.Blocked, "opened outside": with.Opened, "blocked outside": with.Blocked,
		"new pods": come.Allowed, "new pods outside": come.WithOutside, "new pods by policy": come.ByPolicy, "new pods freely": come.Allowed - come.ByPolicy, "deleted pods": gone.Allowed,
	} {
		if n > 0 {
			x.seen[what]++
		}
	}
}

// population is who is there before a change, and after it.
type population struct {
	stay, come, gone []netip.Addr // pods that stay, by the address that is theirs both times, are new, are deleted
	outside          []netip.Addr // of nobody, both times
}

// population sorts the addresses of pods, and those given.
func (x planned) population(addrs []netip.Addr) (p population) {
	seen := map[netip.Addr]bool{}
	for _, c := range []oracle.Cluster{x.before, x.after} {
		for i := range c.Pods {
			addrs = append(addrs, oracle.Address(&c.Pods[i]))
		}
	}
	for _, addr := range addrs {
		if seen[addr] || !addr.IsValid() {
			continue
		}
		seen[addr] = true
		old, now := oracle.Owner(x.before, addr), oracle.Owner(x.after, addr)
		if old != nil && now != nil && old.Namespace == now.Namespace && old.Name == now.Name {
			p.stay = append(p.stay, addr)
			continue
		}
		if old != nil {
			p.gone = append(p.gone, addr)
		}
		if now != nil {
			p.come = append(p.come, addr)
		}
		if old == nil && now == nil {
			p.outside = append(p.outside, addr)
		}
	}
	return p
}

// others counts what passes, in a cluster in which they are there, between some pods and all.
func (x planned) others(c oracle.Cluster, some []netip.Addr, p population, ports []gen.Probe) plan.Others {
	out := plan.Others{Pods: len(some)}
	for _, pod := range some {
		for _, other := range p.stay {
			x.pass(&out, c, []netip.Addr{pod}, []netip.Addr{other}, ports, 0)
			x.pass(&out, c, []netip.Addr{other}, []netip.Addr{pod}, ports, 1)
		}
		for _, other := range some {
			if pod != other {
				x.pass(&out, c, []netip.Addr{pod}, []netip.Addr{other}, ports, neither)
			}
		}
		allowed := out.Allowed
		x.pass(&out, c, []netip.Addr{pod}, p.outside, ports, neither)
		x.pass(&out, c, p.outside, []netip.Addr{pod}, ports, neither)
		out.WithOutside += out.Allowed - allowed
	}
	return out
}

// neither side of sidesOf is that of a pod that stays.
const neither = -1

// pass counts one connection, if it passes between any two of the addresses, and whether it
// does on some port because a policy of the end that stays lets it.
func (x planned) pass(to *plan.Others, c oracle.Cluster, from, into []netip.Addr, ports []gen.Probe, stays int) {
	allowed, admitted := false, false
	for _, src := range from {
		for _, dst := range into {
			for _, probe := range ports {
				sides := sidesOf(c, src, dst, probe)
				if sides[0].Allowed && sides[1].Allowed {
					allowed = true
					admitted = admitted || stays != neither && sides[stays].Isolated
				}
			}
		}
	}
	if allowed {
		to.Allowed++
	}
	if admitted {
		to.ByPolicy++
	}
}

// count adds one connection to a tally, if it flips between any two of the addresses.
func (x planned) count(to *plan.Tally, from, into []netip.Addr, ports []gen.Probe) {
	opened, blocked := false, false
	for _, src := range from {
		for _, dst := range into {
			for _, probe := range ports {
				old, now := verdictOf(x.before, src, dst, probe), verdictOf(x.after, src, dst, probe)
				opened = opened || old != now && now == explain.Allowed
				blocked = blocked || old != now && now == explain.Blocked
			}
		}
	}
	if opened || blocked {
		to.Flipped++
	}
	if opened {
		to.Opened++
	}
	if blocked {
		to.Blocked++
	}
}

// points returns one port of each range that policies tell apart, and likewise addresses.
func (x planned) points() (ports []gen.Probe, addrs []netip.Addr) {
	numbers := map[uint16]bool{1: true}
	blocks := []string{}
	add := func(peers []networkingv1.NetworkPolicyPeer, rule []networkingv1.NetworkPolicyPort) {
		for _, p := range peers {
			if p.IPBlock != nil {
				blocks = append(append(blocks, p.IPBlock.CIDR), p.IPBlock.Except...)
			}
		}
		for _, p := range rule {
			if p.Port != nil && p.Port.Type == intstr.Int {
				last := p.Port.IntVal
				if p.EndPort != nil {
					last = *p.EndPort
				}
				numbers[uint16(p.Port.IntVal)], numbers[uint16(min(last+1, 65535))] = true, true
			}
		}
	}
	for _, np := range slices.Concat(x.before.Policies, x.after.Policies) {
		for _, r := range np.Spec.Ingress {
			add(r.From, r.Ports)
		}
		for _, r := range np.Spec.Egress {
			add(r.To, r.Ports)
		}
	}
	for _, pod := range slices.Concat(x.before.Pods, x.after.Pods) {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, p := range c.Ports {
				numbers[uint16(p.ContainerPort)], numbers[uint16(min(p.ContainerPort+1, 65535))] = true, true
			}
		}
	}
	for number := range numbers {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			ports = append(ports, gen.Probe{Protocol: protocol, Port: number})
		}
	}
	addrs = []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	for _, text := range blocks {
		block, err := netip.ParsePrefix(text)
		if err != nil || !block.Addr().Is4() {
			continue
		}
		first := block.Masked().Addr()
		last := first.As4()
		for bit := block.Bits(); bit < 32; bit++ {
			last[bit/8] |= 1 << (7 - bit%8)
		}
		for _, a := range []netip.Addr{first, first.Prev(), first.Next(), netip.AddrFrom4(last), netip.AddrFrom4(last).Next(), netip.AddrFrom4(last).Prev()} {
			if a.IsValid() && !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	return ports, addrs
}
