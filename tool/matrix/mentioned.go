package matrix

import (
	"cmp"
	"math"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// selectedKeys returns the labels of pods that a policy asks for.
func selectedKeys(spec *networkingv1.NetworkPolicySpec) []string {
	var keys []string
	add := func(s *metav1.LabelSelector) {
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			keys = append(keys, key)
		}
		for _, r := range s.MatchExpressions {
			keys = append(keys, r.Key)
		}
	}
	add(&spec.PodSelector)
	for _, r := range spec.Ingress {
		for _, p := range r.From {
			add(p.PodSelector)
		}
	}
	for _, r := range spec.Egress {
		for _, p := range r.To {
			add(p.PodSelector)
		}
	}
	return keys
}

// protocols by their numbers in rules.
var protocols = map[string]policy.Protocol{"6": policy.TCP, "17": policy.UDP, "132": policy.SCTP}

// ports returns what Matrix.Ports does.
func ports(d *state.Dump) []policy.Port {
	seen := map[policy.Port]bool{}
	for i := range d.Pods {
		for _, text := range d.Pods[i].Ports {
			_, rest, _ := strings.Cut(text, ":")
			if number, protocol, err := explain.ParsePort(rest); err == nil {
				seen[policy.Port{Protocol: protocol, First: number, Last: number}] = true
			}
		}
	}
	for i := range d.Policies {
		if spec := d.Policies[i].Spec; spec != nil {
			ofPolicy(spec, seen)
		}
	}
	for i := range d.Endpoints {
		ep := &d.Endpoints[i]
		for _, acls := range append([][]hns.ACL{ep.Applied, ep.Wanted, ep.ForeignRules}, ep.Maybe...) {
			for _, a := range acls {
				ofRule(a, seen)
			}
		}
	}
	var out []policy.Port
	for p, is := range seen {
		if is {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b policy.Port) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	return append(out, other(out))
}

// ofPolicy notes the ports of a policy's rules, those that have a number.
func ofPolicy(spec *networkingv1.NetworkPolicySpec, seen map[policy.Port]bool) {
	for _, r := range policy.Compile(&networkingv1.NetworkPolicy{Spec: *spec}).Rules {
		for _, p := range r.Ports {
			seen[p] = p.First > 0
		}
	}
}

// ofRule notes the destination ports of a rule.
func ofRule(a hns.ACL, seen map[policy.Port]bool) {
	ranges, ok := hns.ParsePorts(a.DstPorts())
	protocol, known := protocols[a.Protocols]
	if !ok || !known {
		return
	}
	for _, r := range ranges {
		seen[policy.Port{Protocol: protocol, First: r[0], Last: r[1]}] = true
	}
}

// other returns the greatest TCP port that is in none of the ranges; when there
// is none, the greatest.
func other(mentioned []policy.Port) policy.Port {
	for n := math.MaxUint16; n > 0; n-- {
		number := uint16(n)
		if !slices.ContainsFunc(mentioned, func(p policy.Port) bool {
			return p.Protocol == policy.TCP && p.First <= number && number <= p.Last
		}) {
			return policy.Port{Protocol: policy.TCP, First: number, Last: number}
		}
	}
	return policy.Port{Protocol: policy.TCP, First: math.MaxUint16, Last: math.MaxUint16}
}
