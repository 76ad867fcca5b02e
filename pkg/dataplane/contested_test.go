package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// claimant has the policies of one pod's namespace for one direction. With isolates or opens, a
// NetworkPolicy isolates the pod and allows the peers in opens.
type claimant struct{ admin, baseline, isolates, opens string }

// claimants have their Deny rules at different places of a list: in its first run, after an
// Accept, at the end, or nowhere.
var claimants = map[string]claimant{
	"nothing":                           {},
	"accepts":                           {admin: "Accept 80 80"},
	"denies":                            {admin: "Deny 80 80"},
	"denies behind an accept":           {admin: "Accept 81 81; Deny 80 82"},
	"denies between accepts":            {admin: "Accept 80 80; Deny 80 81; Accept 80 82"},
	"passes, and denies in the end":     {admin: "Pass 80 80", baseline: "Deny 80 81"},
	"accepts, and denies in the end":    {admin: "Accept 80 80", baseline: "Accept 81 81; Deny 80 82"},
	"denies in the end":                 {baseline: "Deny 80 80"},
	"is isolated":                       {isolates: "this", opens: "80"},
	"is isolated, and accepts":          {admin: "Accept 80 80", isolates: "this", opens: "81"},
	"is isolated the other way":         {isolates: "other"},
	"is isolated the other way, denies": {admin: "Accept 81 81; Deny 80 80", isolates: "other"},
}

// put sets the policies of a namespace for the claimant.
func (c claimant) put(w *world, ns string, ingress bool) {
	this, that, from := "ingress", "Egress", "from"
	if !ingress {
		this, that, from = "egress", "Ingress", "to"
	}
	for tier, text := range map[string]string{"Admin": c.admin, "Baseline": c.baseline} {
		var rules []string
		for rule := range strings.SplitSeq(text, "; ") {
			if f := strings.Fields(rule); len(f) > 0 {
				rules = append(rules, fmt.Sprintf("{action: %s, %s: [{namespaces: {matchLabels: {team: z}}}], protocols: [{tcp: {destinationPort: {range: {start: %s, end: %s}}}}]}", f[0], from, f[1], f[2]))
			}
		}
		if len(rules) > 0 {
			w.do(fmt.Sprintf("cluster %s-%s {tier: %s, priority: 1, subject: {namespaces: {matchLabels: {team: %s}}}, %s: [%s]}", strings.ToLower(tier), ns, tier, ns, this, strings.Join(rules, ", ")))
		}
	}
	spec := ""
	switch {
	case c.isolates == "other":
		spec = fmt.Sprintf("{podSelector: {}, policyTypes: [%s]}", that)
	case c.isolates != "":
		spec = fmt.Sprintf("{podSelector: {}, policyTypes: [%s], %s: [{ports: [{port: %s}]}]}", strings.ToUpper(this[:1])+this[1:], this, c.opens)
	default:
		return
	}
	w.do("policy " + ns + "/np " + spec)
}

// TestContestedIsNoMoreThanEach: two local pods claim one address, and each has its Deny rules at
// another place of its list. A connection of the endpoint passes only if it would pass for each of
// the two pods alone: no Accept of one pod comes before a Deny of the other pod. The node always
// reaches the endpoint.
func TestContestedIsNoMoreThanEach(t *testing.T) {
	for _, ingress := range []bool{true, false} {
		fresh := func(t *testing.T) *world {
			w := newWorld(t)
			w.do("namespace one team=one", "namespace two team=two", "namespace z team=z", "node 10.0.0.100", "endpoint ep 10.0.0.1", "pod z/peer 10.0.1.1 remote")
			return w
		}
		verdicts := func(w *world) (out [4]bool) {
			for i := range out {
				trace := "10.0.1.1 -> 10.0.0.1 TCP/%d ep in allow"
				if !ingress {
					trace = "10.0.0.1 -> 10.0.1.1 TCP/%d ep out allow"
				}
				out[i] = w.trace(strings.Fields(fmt.Sprintf(trace, 80+i))) == nil
			}
			return out
		}
		alone := map[string][4]bool{} // by namespace and claimant
		for name, c := range claimants {
			for _, ns := range []string{"one", "two"} {
				w := fresh(t)
				c.put(w, ns, ingress)
				w.do("pod "+ns+"/w 10.0.0.1", "apply")
				alone[ns+" "+name] = verdicts(w)
			}
		}
		open := 0
		for first, a := range claimants {
			for second, b := range claimants {
				t.Run(fmt.Sprintf("ingress=%v/%s/%s", ingress, first, second), func(t *testing.T) {
					w := fresh(t)
					a.put(w, "one", ingress)
					b.put(w, "two", ingress)
					w.do("pod two/w 10.0.0.1", "apply", "pod one/w 10.0.0.1", "apply", "trace 10.0.0.100 -> 10.0.0.1 TCP/80 ep in allow")
					one, two := alone["one "+first], alone["two "+second]
					for i, allowed := range verdicts(w) {
						if allowed {
							open++
						}
						if allowed && (!one[i] || !two[i]) {
							require.Failf(t, "more than each", "port %d is open, alone the pods have %v and %v: %s", 80+i, one, two, w.sim.Dump())
						}
					}
				})
			}
		}
		require.NotZero(t, open, "what both allow is allowed to some of them")
	}
}

// TestManyContestedElsewhere: the numbers of warnings and of judged pods are bounded. The choice of
// the judged pods does not depend on their Trust.
func TestManyContestedElsewhere(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "namespace y")
	for i := range 600 {
		w.do(fmt.Sprintf("pod x/r%03d 10.1.%d.%d remote", i, i/250, 1+i%250), fmt.Sprintf("pod y/r%03d 10.1.%d.%d remote", i, i/250, 1+i%250))
	}
	w.do("apply")
	require.Len(t, w.report.Warnings, 64)
	w.do("warning (and 536 more addresses are contested)")
	before := w.report.Rivals
	require.Len(t, before, 1024)
	w.do("pod x/r000 10.1.0.1 remote trust=2", "apply", "warning (and 535 more addresses are contested)")
	require.Equal(t, before, w.report.Rivals)
}
