package simulate

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/cluster"
)

const tiers = "../../examples/tiers"

// The example says of each tier what it decides. Nodes and networks are peers, and
// what production says is above what its tenants say.
func TestTiers(t *testing.T) {
	for _, c := range []struct {
		trace   string
		allowed bool
		ingress string // tier, policy and rule of the side that decided; "" for none
		egress  string
	}{
		{"monitoring/scraper->shop/db:9090/TCP", true, "Admin ClusterNetworkPolicy/platform scrape", ""},
		{"monitoring/scraper->lab/board:9100/TCP", true, "Admin ClusterNetworkPolicy/platform scrape", ""},
		{"monitoring/scraper->shop/web:8080/TCP", false, "Admin ClusterNetworkPolicy/production from-elsewhere", ""},
		{"lab/notebook->shop/web:8080/TCP", false, "Admin ClusterNetworkPolicy/production from-elsewhere", ""},
		{"shop/web->shop/db:5432/TCP", true, "NetworkPolicy shop/db passed by ClusterNetworkPolicy/production", ""},
		{"shop/web->shop/db:80/TCP", false, "NetworkPolicy shop/db passed by ClusterNetworkPolicy/production", ""},
		{"lab/notebook->lab/board:80/TCP", true, "NetworkPolicy lab/board", ""},
		{"lab/board->lab/notebook:80/TCP", false, "Baseline ClusterNetworkPolicy/default closed", ""},
		{"monitoring/scraper->lab/notebook:80/TCP", true, "Baseline ClusterNetworkPolicy/default monitoring", ""},
		{"shop/web->10.240.0.4:10250/TCP", false, "", "Admin ClusterNetworkPolicy/platform kubelets"},
		{"shop/web->10.240.0.4:10251/TCP", true, "", ""},
		{"shop/web->169.254.169.254:80/TCP", false, "", "Admin ClusterNetworkPolicy/platform cloud-metadata"},
		{"9.9.9.9->lab/notebook:80/TCP", true, "", ""},
		{"10.240.0.4->shop/db:1/TCP", true, "", ""},
	} {
		t.Run(c.trace, func(t *testing.T) {
			code, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{tiers}}, Trace: []string{c.trace}})
			require.Equal(t, cli.ExitOK, code)
			require.Empty(t, d.Warnings)
			v := d.Verdicts[0]
			require.Equal(t, c.allowed, *v.Allowed)
			require.Equal(t, c.ingress, decided(v.Ingress))
			require.Equal(t, c.egress, decided(v.Egress))
		})
	}
}

// decided says in a line what decided at one side.
func decided(s *Side) string {
	words := []string{s.Tier, s.Policy, s.RuleName}
	for _, p := range s.Passed {
		words = append(words, "passed by", p.Policy)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
