package oracletest

import (
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/explain"
	"github.com/winnpm/winnpm/pkg/whatif"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// headline counts anew what the first line of a plan counts, from the oracle's verdicts alone:
// of all pairs of pods, and of each pod with what is no pod, over one port of each range in
// which no policy tells ports apart, and one address of each range in which none tells
// addresses apart.
func (x planned) headline() {
	ports, addrs := x.points()
	var pods, outside []netip.Addr
	for i := range x.before.Pods {
		addr := oracle.Address(&x.before.Pods[i])
		if oracle.Owner(x.before, addr) != nil && !slices.Contains(pods, addr) {
			pods = append(pods, addr)
		}
	}
	for _, addr := range addrs {
		if oracle.Owner(x.before, addr) == nil {
			outside = append(outside, addr)
		}
	}
	var between, with whatif.Tally
	for _, pod := range pods {
		for _, other := range pods {
			if pod != other {
				x.count(&between, []netip.Addr{pod}, []netip.Addr{other}, ports)
			}
		}
		x.count(&with, []netip.Addr{pod}, outside, ports)
		x.count(&with, outside, []netip.Addr{pod}, ports)
	}
	require.Equal(x.w.t, between, x.plan.Between, "between pods")
	require.Equal(x.w.t, with, x.plan.WithOutside, "with addresses outside")
	all := whatif.Tally{Flipped: between.Flipped + with.Flipped, Opened: between.Opened + with.Opened, Blocked: between.Blocked + with.Blocked}
	require.Equal(x.w.t, all, x.plan.Tally, "in all")
	for what, n := range map[string]int{"opened inside": between.Opened, "blocked inside": between.Blocked, "opened outside": with.Opened, "blocked outside": with.Blocked} {
		if n > 0 {
			x.seen[what]++
		}
	}
}

// count adds one connection to a tally, if it flips between any two of the addresses.
func (x planned) count(to *whatif.Tally, from, into []netip.Addr, ports []gen.Probe) {
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
	for i := range x.before.Pods {
		for _, c := range slices.Concat(x.before.Pods[i].Spec.InitContainers, x.before.Pods[i].Spec.Containers) {
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
