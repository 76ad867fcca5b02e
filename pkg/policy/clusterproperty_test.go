package policy_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestClusterMeansWhatTheAPISays plays packets against each compiled rule and against a
// naive reading of the object, which knows what closes.
func TestClusterMeansWhatTheAPISays(t *testing.T) {
	for name, s := range map[string]shape{"valid": {}, "malformed": {bad: 12}} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				cnp := s.clusterPolicy(t)
				c := policy.CompileCluster(cnp)
				if len(c.Rules) != len(cnp.Spec.Ingress)+len(cnp.Spec.Egress) {
					t.Fatalf("a rule is missing:\n%s", clusterText(c))
				}
				for range 8 {
					o := drawOther(t)
					if rapid.IntRange(0, 3).Draw(t, "icmp") == 0 {
						o.protocol, o.port, o.portName = icmp, 0, ""
					}
					for i, want := range naiveRules(cnp, o) {
						seen[want]++
						if got := compiledRule(c, c.Rules[i], o); got != want {
							t.Fatalf("rule %d on %+v: compiled %q, naive %q\n%s", i, o, got, want, clusterText(c))
						}
					}
					want := naiveSubject(&cnp.Spec, o) != no
					if got := c.Namespaces.Matches(o.namespaceLabels) && c.Subject.Matches(o.labels); got != want {
						t.Fatalf("subject on %+v: compiled %v, naive %v\n%s", o, got, want, clusterText(c))
					}
				}
			})
			require.ElementsMatch(t, []string{"", "Accept", "Deny", "Pass"}, slices.Collect(maps.Keys(seen)))
		})
	}
}

// naiveRules reads all rules, ingress first.
func naiveRules(cnp *v1alpha2.ClusterNetworkPolicy, o other) []string {
	var out []string
	closed := naiveClosed(&cnp.Spec)
	for _, r := range cnp.Spec.Ingress {
		var peers []v1alpha2.ClusterNetworkPolicyEgressPeer
		for _, p := range r.From {
			peers = append(peers, v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: p.Namespaces, Pods: p.Pods})
		}
		out = append(out, naiveRule(string(r.Action), peers, r.Protocols, closed, o))
	}
	for _, r := range cnp.Spec.Egress {
		out = append(out, naiveRule(string(r.Action), r.To, r.Protocols, closed, o))
	}
	return out
}

// TestClusterWellFormed checks what every result promises.
func TestClusterWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cnp := shape{bad: 20}.clusterPolicy(t)
		before := cnp.DeepCopy()
		c := policy.CompileCluster(cnp)
		if diff := cmp.Diff(before, cnp); diff != "" {
			t.Fatalf("the policy was changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(clusterText(c), clusterText(policy.CompileCluster(before))); diff != "" {
			t.Fatalf("not deterministic:\n%s", diff)
		}
		checkClusterWellFormed(t, c)
	})
}

func checkClusterWellFormed(t failer, c policy.Policy) {
	var named []ipsets.Name
	for _, r := range c.Rules {
		if line := clusterRuleText(r); strings.Contains(line, "BAD") || strings.Contains(line, "BOTH") {
			t.Fatalf("a rule is malformed: %s", line)
		}
		for _, p := range r.Peers {
			for _, n := range p.Sets {
				if r.Action != policy.Deny {
					named = append(named, n)
				}
				if r.Action == policy.Accept {
					continue
				}
				if named = append(named, n.Deny()); n.Kind() != ipsets.KindNodes {
					named = append(named, ipsets.Doubt())
				}
			}
		}
	}
	checkSets(t, named, c.Sets, clusterText(c))
	checkProblems(t, c.Problems)
}

// TestClusterAtTheCRDsLimit: the largest policy without selectors that the CRD takes is
// within ClusterBytes.
func TestClusterAtTheCRDsLimit(t *testing.T) {
	cnp := &v1alpha2.ClusterNetworkPolicy{}
	cnp.Spec.Tier, cnp.Spec.Subject.Namespaces = v1alpha2.BaselineTier, &metav1.LabelSelector{}
	for range 25 {
		in := v1alpha2.ClusterNetworkPolicyIngressRule{Action: "Deny", Name: strings.Repeat("n", 100)}
		out := v1alpha2.ClusterNetworkPolicyEgressRule{Action: "Deny", Name: strings.Repeat("n", 100)}
		for range 25 {
			in.From = append(in.From, v1alpha2.ClusterNetworkPolicyIngressPeer{Pods: &v1alpha2.NamespacedPod{}})
			out.To = append(out.To, v1alpha2.ClusterNetworkPolicyEgressPeer{Networks: slices.Repeat([]v1alpha2.CIDR{"255.255.255.255/32"}, 25)})
			in.Protocols = append(in.Protocols, v1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: "a-long-one-of-15"[:15]})
			out.Protocols = append(out.Protocols, v1alpha2.ClusterNetworkPolicyProtocol{SCTP: &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: &v1alpha2.Port{Number: 1}}})
		}
		cnp.Spec.Ingress, cnp.Spec.Egress = append(cnp.Spec.Ingress, in), append(cnp.Spec.Egress, out)
	}
	text, err := json.Marshal(cnp.Spec)
	require.NoError(t, err)
	require.Less(t, len(text), policy.ClusterBytes)
	c := policy.CompileCluster(cnp)
	require.Len(t, c.Rules, 50)
	require.Empty(t, c.Problems)
}

// FuzzCompileCluster: whatever an API server can store, CompileCluster answers.
func FuzzCompileCluster(f *testing.F) {
	for i := range 20 {
		if data, err := json.Marshal(rapid.Custom(shape{bad: 8}.clusterPolicy).Example(i)); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte(`{"spec":{"ingress":[null],"egress":[{"to":[null],"protocols":[null,{"tcp":null}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var cnp v1alpha2.ClusterNetworkPolicy
		if json.Unmarshal(data, &cnp) != nil {
			t.Skip("not a ClusterNetworkPolicy")
		}
		checkClusterWellFormed(t, policy.CompileCluster(&cnp))
	})
}
