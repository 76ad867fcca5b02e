package policy

import (
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Compile returns the meaning of np, which it does not change. It never fails: parts that cannot be
// expressed are left out, which closes rather than opens, and are listed in the result's Problems.
// Policies with the same meaning have the same result, in whatever order they list labels, values
// and ports. np may violate the validation of today's API servers, because old objects of live
// clusters do.
func Compile(np *networkingv1.NetworkPolicy) Policy {
	spec := field.NewPath("spec")
	c := compiler{namespace: np.Namespace, malformed: ReasonInvalid}
	c.out.Key, c.out.Tier = Key{Namespace: np.Namespace, Name: np.Name}, Namespaced

	subject, ok := c.selector(&np.Spec.PodSelector, spec.Child("podSelector"),
		"every pod of the namespace is isolated and the rules are left out")
	c.out.Isolates = c.isolates(&np.Spec, spec)
	// A malformed subject matches all pods. The rules were not meant for all pods, so they are left
	// out.
	if c.out.Subject = subject.matcher(); !ok {
		return c.policy()
	}
	// By the API, rules of a direction that is not isolated have no effect.
	if c.out.Isolates[Ingress] {
		for i, r := range np.Spec.Ingress {
			c.rule(Ingress, i, r.From, r.Ports, spec.Child("ingress").Index(i), "from")
		}
	}
	if c.out.Isolates[Egress] {
		for i, r := range np.Spec.Egress {
			c.rule(Egress, i, r.To, r.Ports, spec.Child("egress").Index(i), "to")
		}
	}
	return c.policy()
}

// compiler holds the state of Compile or CompileCluster for one policy.
type compiler struct {
	out       Policy
	namespace string // of a NetworkPolicy
	malformed Reason // of a malformed selector
	// closed is set if the subject, tier or priority of a ClusterNetworkPolicy is unreadable, so that
	// the policy must not accept or pass anything.
	closed bool
}

// policy returns the result, with the sets that its rules need, sorted by name. For each set of a peer,
// a rule that may allow needs the set. A rule that may deny needs the set's deny twin, and also Doubt
// unless it is a set of nodes.
func (c *compiler) policy() Policy {
	sets := map[ipsets.Name]SetDef{}
	for _, r := range c.out.Rules {
		for _, p := range r.Peers {
			for _, n := range p.Sets {
				if r.Action != Deny {
					define(sets, n)
				}
				if r.Action != Accept {
					define(sets, n.Deny())
				}
				if r.Action != Accept && n.Kind() != ipsets.KindNodes {
					define(sets, ipsets.Doubt())
				}
			}
		}
	}
	c.out.Sets = slices.SortedFunc(maps.Values(sets), func(a, b SetDef) int { return ipsets.Compare(a.Name, b.Name) })
	return c.out
}

// define adds the definitions of a set and of its members, which follow from their names.
func define(sets map[ipsets.Name]SetDef, n ipsets.Name) {
	if _, known := sets[n]; known {
		return
	}
	def, ok := Definition(n)
	if !ok {
		panic(fmt.Sprintf("BUG: a peer in set %s, whose name has no definition", n))
	}
	sets[n] = def
	for _, member := range def.Members {
		define(sets, member)
	}
}

// problem counts a part that is left out. It adds a Problem for the first MaxProblems of each
// reason.
func (c *compiler) problem(reason Reason, at *field.Path, format string, args ...any) {
	if c.out.Found == nil {
		c.out.Found = map[Reason]int{}
	}
	if c.out.Found[reason]++; c.out.Found[reason] <= MaxProblems {
		c.out.Problems = append(c.out.Problems, Problem{Reason: reason, Field: at.String(), Message: fmt.Sprintf(format, args...)})
	}
}

// invalid notes that a field violates the API's rules. The message says what is wrong; consequence
// says what happens to the policy.
func (c *compiler) invalid(at *field.Path, consequence, format string, args ...any) {
	c.problem(ReasonInvalid, at, "%s; %s", fmt.Sprintf(format, args...), consequence)
}

// isolates returns which directions the policy isolates, and notes unknown policy types and the
// mark of a closed policy.
func (c *compiler) isolates(spec *networkingv1.NetworkPolicySpec, at *field.Path) [2]bool {
	excess := Excess(spec)
	for i, t := range spec.PolicyTypes {
		switch {
		case t == networkingv1.PolicyTypeIngress, t == networkingv1.PolicyTypeEgress:
		case excess != "" && i == len(spec.PolicyTypes)-1:
			c.problem(ReasonOverBudget, at,
				"%s; the policy isolates and allows nothing. Make it smaller, or raise that key of the configuration", excess)
		default:
			c.invalid(at.Child("policyTypes").Index(i), "it is ignored",
				"unknown policy type %q, use Ingress or Egress", t)
		}
	}
	return directions(spec)
}

// rule compiles one entry. It drops a rule whose peers or ports were all left out.
func (c *compiler) rule(dir Direction, i int, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, at *field.Path, peersAt string) {
	r := Rule{Direction: dir, Index: i, Action: Accept, Peers: c.peers(peers, at.Child(peersAt))}
	var some bool
	if r.Ports, some = c.ports(ports, at.Child("ports")); some && len(r.Peers) > 0 {
		c.out.Rules = append(c.out.Rules, r)
	}
}
