package policy

import (
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Compile gives np its meaning. It never fails and np stays unchanged: what
// cannot be expressed is left out, closes rather than opens, and is named in
// the result's Problems. Objects that mean the same give the same result, in
// whatever order they list labels, values and ports. np may be refused by the
// validation of today's API servers, as old objects of live clusters are.
func Compile(np *networkingv1.NetworkPolicy) Compiled {
	spec := field.NewPath("spec")
	c := compiler{namespace: np.Namespace, malformed: ReasonInvalid, defined: map[ipsets.Name]bool{}}

	subject, ok := c.selector(&np.Spec.PodSelector, spec.Child("podSelector"),
		"every pod of the namespace is isolated and the rules are left out")
	isolates := c.isolates(&np.Spec, spec)
	if ok {
		c.rules(&np.Spec, spec, isolates)
	}
	// A broken subject keeps the matcher of no requirements, which matches all
	// pods. The rules are not for all of them, so none gets any.
	return Compiled{
		Key:      Key{Namespace: np.Namespace, Name: np.Name},
		Subject:  subject.matcher(),
		Isolates: isolates,
		Rules:    c.out,
		Sets:     c.sortedSets(),
		Problems: c.problems,
		Found:    c.found,
	}
}

// compiler collects what Compile finds on its way through one policy.
type compiler struct {
	namespace string
	malformed Reason // of a malformed selector
	out       []Rule
	sets      []SetDef
	defined   map[ipsets.Name]bool // in sets
	problems  []Problem
	found     map[Reason]int // of all problems; nil for none
}

// problem notes something that is left out, and words it if few of its reason were
// before.
func (c *compiler) problem(reason Reason, at *field.Path, format string, args ...any) {
	if c.found == nil {
		c.found = map[Reason]int{}
	}
	if c.found[reason]++; c.found[reason] <= MaxProblems {
		c.problems = append(c.problems, Problem{Reason: reason, Field: at.String(), Message: fmt.Sprintf(format, args...)})
	}
}

// invalid notes that the field at breaks the API's rules. The message says what
// is wrong with it; consequence is what becomes of the policy.
func (c *compiler) invalid(at *field.Path, consequence, format string, args ...any) {
	c.problem(ReasonInvalid, at, "%s; %s", fmt.Sprintf(format, args...), consequence)
}

// isolates tells which directions the policy is about, and notes what else stands
// there.
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

// rules compiles the rules of the directions that the policy is about; the API
// gives no meaning to those of the other.
func (c *compiler) rules(spec *networkingv1.NetworkPolicySpec, at *field.Path, isolates [2]bool) {
	if isolates[Ingress] {
		for i, r := range spec.Ingress {
			here := at.Child("ingress").Index(i)
			c.rule(Rule{Direction: Ingress, Index: i}, r.From, here.Child("from"), r.Ports, here.Child("ports"))
		}
	}
	if isolates[Egress] {
		for i, r := range spec.Egress {
			here := at.Child("egress").Index(i)
			c.rule(Rule{Direction: Egress, Index: i}, r.To, here.Child("to"), r.Ports, here.Child("ports"))
		}
	}
}

// rule completes r for each peer and emits it with the sets that it needs. A
// rule that lost all of its peers or all of its ports is not there.
func (c *compiler) rule(r Rule, peers []networkingv1.NetworkPolicyPeer, peersAt *field.Path,
	ports []networkingv1.NetworkPolicyPort, portsAt *field.Path,
) {
	candidates := c.peers(peers, peersAt)
	allowed, ok := c.ports(ports, portsAt)
	if !ok {
		return
	}
	for _, p := range candidates {
		r.Peer, r.Ports = p.peer, allowed
		c.out = append(c.out, r)
		for _, def := range p.defs {
			c.define(def)
		}
	}
}

// define adds a set, once. A name says all of its set.
func (c *compiler) define(def SetDef) {
	if !c.defined[def.Name] {
		c.defined[def.Name] = true
		c.sets = append(c.sets, def)
	}
}

// sortedSets returns the sets by name.
func (c *compiler) sortedSets() []SetDef {
	slices.SortFunc(c.sets, func(a, b SetDef) int { return ipsets.Compare(a.Name, b.Name) })
	return c.sets
}
