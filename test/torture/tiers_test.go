package torture

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManyTierRules: a ClusterNetworkPolicy of 25 rules with 25 peers each comes to a pod
// that is isolated, its order turns round, and it goes: disturbed at every call as the
// scenarios of testdata are. The actions take turns, and the blocks of one rule overlap
// those of the next ones.
func TestManyTierRules(t *testing.T) {
	t.Parallel()
	policy := func(backwards bool) string {
		var rules []string
		for i := range 25 {
			var networks []string
			for j := range 24 {
				networks = append(networks, fmt.Sprintf("10.%d.%d.0/24", i%5, j))
			}
			action := [...]string{"Accept", "Deny", "Pass"}[i%3]
			rules = append(rules, fmt.Sprintf("{action: %s, to: [{networks: [%s]}, {namespaces: {matchLabels: {team: t%d}}}], protocols: [{tcp: {destinationPort: {number: %d}}}]}",
				action, strings.Join(networks, ", "), i%7, 80+i%4))
		}
		if backwards {
			for i := range rules[:12] {
				rules[i], rules[24-i] = rules[24-i], rules[i]
			}
		}
		return "cluster c {tier: Admin, priority: 5, subject: {namespaces: {}}, egress: [" + strings.Join(rules, ", ") + "]}"
	}
	sc, err := parse("T10 25 rules with 25 peers each", strings.Join([]string{
		"namespace x team=t1", "namespace y team=t2", "namespace z team=t3",
		"endpoint ep-1 10.0.0.1", "pod x/w 10.0.0.1", "pod y/p 10.1.1.1 remote", "pod z/q 10.2.2.1 remote",
		"policy x/p {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: t2}}}]}, {to: [{ipBlock: {cidr: 10.2.0.0/16}}]}]}",
		"ports 80 81 82 83 84", "start",
		policy(false), "apply", policy(true), "apply", "delete cluster c", "apply",
	}, "\n"))
	require.NoError(t, err)
	everyCall(t, sc)
}
