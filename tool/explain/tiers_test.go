package explain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// ask answers a question about manifests.
func ask(t *testing.T, path, from, to string, port uint16) (explain.Answer, string) {
	t.Helper()
	d, places, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{path}})
	require.NoError(t, err)
	a, err := explain.Explain(d, explain.Question{From: from, To: to, Port: port, Protocol: policy.TCP}, places)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, a.WriteText(&b))
	return a, b.String()
}

// TestRulesOfTiers: where tiers are about a pod, rules are named by where their policies
// have them, the policy that has the say is the one that is named, and what would help is
// told.
func TestRulesOfTiers(t *testing.T) {
	const tiers = "../../examples/tiers"
	_, text := ask(t, tiers, "lab/notebook", "lab/board", 80)
	require.Contains(t, text, "into lab/board: allowed, policy lab/board spec.ingress[0] allows it\n")
	_, text = ask(t, tiers, "monitoring/scraper", "shop/db", 9090)
	require.Contains(t, text, "  ClusterNetworkPolicy/platform spec.ingress[0] (../../examples/tiers/10-admin.yaml:")
	require.NotContains(t, text, "no more")

	a, text := ask(t, tiers, "shop/web", "shop/db", 9091)
	require.Contains(t, text, "into shop/db: BLOCKED, rule 0 of ClusterNetworkPolicy/production, tier Admin passed it on; policy shop/db isolates shop/db for ingress, and none of its rules allows this\n")
	require.Contains(t, text, "One change would allow it into shop/db:\n  a connection to 5432/TCP, which shop/db names sql, by shop/db spec.ingress[0] (")
	require.Equal(t, "shop/db", a.Ingress.Actual.Policy)

	// An API server sets kubernetes.io/metadata.name itself, and the number of a name is
	// one that helps.
	_, text = ask(t, tiers, "lab/board", "lab/notebook", 80)
	require.NotContains(t, text, "metadata.name=")
	_, text = ask(t, tiers, "lab/notebook", "lab/board", 81)
	require.Contains(t, text, "  a connection to 80/TCP, which lab/board names http, by lab/board spec.ingress[0] (")
}

// TestPassedTierIsNotNamed: a later rule of a tier that was passed matches as well, and
// decides nothing.
func TestPassedTierIsNotNamed(t *testing.T) {
	a, text := ask(t, "testdata/passed.yaml", "nx/a", "ny/b", 80)
	require.Equal(t, explain.Decider{
		Policy: "nx/tenant", Tier: "NetworkPolicy",
		Passed: []explain.Passed{{Policy: "ClusterNetworkPolicy/adm", Tier: "Admin", Rule: 0}},
	}, a.Egress.Actual.Decider)
	require.Contains(t, text, "rule 0 of ClusterNetworkPolicy/adm, tier Admin passed it on; policy nx/tenant spec.egress[0] allows it\n")
	require.Equal(t, []string{"ClusterNetworkPolicy adm: UnsupportedPeer: spec.egress[2].to[0].domainNames: domain names are not programmed, use networks; the peer is left out"}, a.Warnings)
}
