package gen

import (
	"fmt"
	"net/netip"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/test/oracle"
)

// Coverage counts what was generated, and what verdicts it led to: of every
// feature of a policy alone (see atom), and of every kind of address where a
// policy had the say. The zero value is ready for use.
type Coverage struct {
	clusters, verdicts int
	cells              map[string]*cell
	current            []atom // of the cluster that was added last
}

type cell struct{ generated, allowed, denied int }

// sample is one in how many verdicts the atoms are judged, a prime so that the
// sample is no pattern of addresses and ports.
const sample = 7

func (v *Coverage) at(feature string) *cell {
	if v.cells == nil {
		v.cells = map[string]*cell{}
	}
	if v.cells[feature] == nil {
		v.cells[feature] = &cell{}
	}
	return v.cells[feature]
}

// Cluster counts the features of a cluster; verdicts that follow are about it.
func (v *Coverage) Cluster(c oracle.Cluster) {
	v.clusters++
	v.current = nil
	for _, np := range c.Policies {
		v.current = append(v.current, atoms(np)...)
	}
	for _, a := range v.current {
		for _, feature := range a.features {
			v.at(feature).generated++
		}
	}
	for i := range c.Pods {
		if !oracle.Address(&c.Pods[i]).IsValid() {
			v.at("pod without address").generated++
			if c.Pods[i].Status.PodIP != "" {
				v.at("pod of IPv6 alone").generated++
			}
		}
	}
	for _, addr := range Ends(c) {
		if pod := oracle.Owner(c, addr); pod != nil && pod.Spec.NodeName == Node {
			v.at(toItself).generated++
		}
		for _, feature := range addrFeatures(c, addr) {
			v.at("from or to "+feature).generated++
			if pod := oracle.Owner(c, addr); pod != nil && pod.Spec.NodeName == Node {
				v.at("at "+feature).generated++
			}
		}
	}
}

// Mutation counts a change of a cluster.
func (v *Coverage) Mutation(m Mutation) { v.at("event: "+m.Kind).generated++ }

// toItself is the feature of packets that an address sends to itself.
const toItself = "from a pod to itself"

// Verdict counts what was said at one end of a packet.
func (v *Coverage) Verdict(c oracle.Cluster, src, dst netip.Addr, probe Probe, ingress bool, side oracle.Side) {
	if !side.Isolated || side.Tiered { // of tiers their own test knows
		return
	}
	v.verdicts++
	if v.verdicts%sample != 0 {
		return
	}
	if src == dst {
		v.at(toItself).count(side)
		return
	}
	own, other := src, dst
	if ingress {
		own, other = dst, src
	}
	for _, feature := range addrFeatures(c, own) {
		v.at("at " + feature).count(side)
	}
	for _, feature := range addrFeatures(c, other) {
		v.at("from or to " + feature).count(side)
	}
	for _, a := range v.current {
		if a.ingress != ingress {
			continue
		}
		alone := c
		alone.ClusterPolicies = nil
		alone.Policies = []networkingv1.NetworkPolicy{a.policy}
		in, out := oracle.Verdict(alone, oracle.Endpoint{IP: src}, oracle.Endpoint{IP: dst}, probe.Protocol, probe.Port)
		if !ingress {
			in = out
		}
		if in.Policy == "" {
			continue // does not apply, or the node's privilege
		}
		for _, feature := range a.features {
			v.at(feature).count(in)
		}
	}
}

func (c *cell) count(side oracle.Side) {
	if side.Allowed {
		c.allowed++
	} else {
		c.denied++
	}
}

// Missing returns the cells that are zero and should not be: the generator, or
// the test, does not reach them.
func (v *Coverage) Missing() []string {
	var missing []string
	for _, f := range expected() {
		c := v.at(f.name)
		if c.generated == 0 {
			missing = append(missing, f.name+": generated")
		}
		if c.allowed == 0 && f.allows {
			missing = append(missing, f.name+": allowed")
		}
		if c.denied == 0 && f.denies {
			missing = append(missing, f.name+": denied")
		}
	}
	return missing
}

// Report returns a table of all features. A dash is a cell that cannot count.
func (v *Coverage) Report() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	word := func(n int, possible bool) string {
		if !possible && n == 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	write := func(columns ...string) { // a strings.Builder takes everything
		_, _ = fmt.Fprintln(table, strings.Join(columns, "\t")+"\t")
	}
	write("generated", "allowed", "denied", "feature")
	for _, f := range expected() {
		c := v.at(f.name)
		write(fmt.Sprint(c.generated), word(c.allowed, f.allows), word(c.denied, f.denies), f.name)
	}
	_ = table.Flush()
	return fmt.Sprintf("%d clusters, %d verdicts at isolated ends, one in %d of them counted\n%s", v.clusters, v.verdicts, sample, text.String())
}

// feature is a row of the table; allows and denies say which verdicts it can
// have a part in.
type feature struct {
	name           string
	allows, denies bool
}

// expected returns every feature that a run must reach.
func expected() []feature {
	var all []feature
	full := func(names ...string) { all = rows(all, true, true, names...) }
	closed := func(names ...string) { all = rows(all, false, true, names...) } // what fails closed, or is closed
	silent := func(names ...string) { all = rows(all, false, false, names...) }

	selectors := func(where string) {
		full(where+" {}", where+" matchLabels", where+" In", where+" NotIn", where+" Exists", where+" DoesNotExist")
		closed(where + " malformed")
	}
	selectors("podSelector")
	full("policyTypes default, with egress rules", "policyTypes default, no egress rules", "policyTypes Ingress", "policyTypes Egress",
		"policyTypes Ingress,Egress", "policyTypes Egress,Ingress", "policyTypes Sideways", "policyTypes Sideways,Egress")
	for _, direction := range []string{"ingress", "egress"} {
		closed(direction + ": no rules")
		at := direction + " peer: "
		selectors(at + "pods")
		selectors(at + "namespaces")
		selectors(at + "both, pods")
		selectors(at + "both, namespaces")
		full(at+"none listed", at+"block", at+"block with host bits", at+"block with except")
		closed(at+"empty", at+"ipBlock and selector", at+"malformed cidr", at+"malformed except", at+"IPv6 block")
		at = direction + " port: "
		full(at+"none listed", at+"no number", at+"number", at+"endPort", at+"name", at+"default protocol")
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			full(at + string(protocol))
		}
		closed(at+"unknown protocol", at+"endPort alone", at+"name with endPort", at+"malformed name", at+"number out of range", at+"malformed endPort")
	}
	for _, where := range []string{"at ", "from or to "} {
		full(where+"pod of the node", where+"pod of a known namespace", where+"pod of a namespace without object", where+"address of two pods",
			where+"Pending pod with address", where+"terminating pod", where+"pod with two families, IPv4 first", where+"pod with two families, IPv6 first", where+"pod with sidecar")
	}
	full("from or to pod of another node", "from or to host-network pod", "from or to finished pod", "from or to no member pod", "from or to own node", toItself)
	silent("pod without address", "pod of IPv6 alone")
	for _, m := range mutations {
		silent("event: " + m.kind)
	}
	return all
}

func rows(all []feature, allows, denies bool, names ...string) []feature {
	for _, name := range names {
		all = append(all, feature{name, allows, denies})
	}
	return all
}
