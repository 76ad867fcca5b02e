package simulate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
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
			code, d := onceJSON(t, Options{Manifests: []string{tiers}, Trace: []string{c.trace}})
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

// A world has the policies of all tiers, and all nodes for their peers, whatever
// node it is about.
func TestWorldHasTiers(t *testing.T) {
	for _, node := range []string{"", "win-1"} {
		w, err := World(t.Context(), Options{Manifests: []string{tiers}, Node: node})
		require.NoError(t, err)
		require.Len(t, w.ClusterPolicies, 3)
		require.Equal(t, []state.NodeDump{{
			Name: "win-1", Labels: map[string]string{"kubernetes.io/os": "windows"}, Addrs: []netip.Addr{netip.MustParseAddr("10.240.0.4")},
		}}, w.Peers)
	}
}

// TestOlderPolicies: a kind of the version before is found when there is an object of it,
// and not where the server has it not, or does not let us list it.
func TestOlderPolicies(t *testing.T) {
	const older = "/apis/policy.networking.k8s.io/v1alpha1/"
	const of = `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", `
	for name, tc := range map[string]struct {
		of   map[string]any
		want []string
	}{
		"nothing":      {map[string]any{}, nil},
		"no rights":    {map[string]any{older + "adminnetworkpolicies": 403, older + "baselineadminnetworkpolicies": 403}, nil},
		"none of them": {map[string]any{older + "adminnetworkpolicies": of + `"items": []}`}, nil},
		"both": {map[string]any{
			older + "adminnetworkpolicies":         of + `"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "x"}}`,
			older + "baselineadminnetworkpolicies": of + `"items": [{"metadata": {"name": "default"}}]}`,
		}, []string{"AdminNetworkPolicy a tier Admin", "BaselineAdminNetworkPolicy default tier Baseline"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				switch is := tc.of[r.URL.Path].(type) {
				case string:
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(is))
				case int:
					http.Error(w, "no", is)
				default:
					http.NotFound(w, r)
				}
			}))
			defer server.Close()
			var got []string
			for _, w := range olderPolicies(t.Context(), &rest.Config{Host: server.URL}) {
				require.Equal(t, state.Reason("NotEnforced"), w.Reason)
				require.True(t, manifest.Misleads(w))
				_, tier, _ := strings.Cut(w.Message, "of tier ")
				got = append(got, fmt.Sprintf("%s %s tier %s", w.Kind, w.Object, strings.TrimSuffix(tier, " of each")))
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, 2, asked)
		})
	}
}
