package whatif

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAlone: only where a node has all pods, and nothing that comes in beside the policies, are
// its writes those of the cluster that verdicts are read from.
func TestAlone(t *testing.T) {
	one, other := Node{Name: "n1"}, Node{Name: "n2"}
	addressed := Node{Name: "n1", Addrs: []netip.Addr{netip.MustParseAddr("10.240.0.4")}}
	for name, tt := range map[string]struct {
		nodes []Node
		pods  []Pod
		want  bool
	}{
		"all on one":             {[]Node{one}, []Pod{{Node: "n1"}, {Node: "n1"}}, true},
		"on no node yet":         {[]Node{{}}, []Pod{{}}, true},
		"no pods":                {[]Node{one}, nil, true},
		"the node has addresses": {[]Node{addressed}, []Pod{{Node: "n1"}}, false},
		"a pod elsewhere":        {[]Node{one}, []Pod{{Node: "n1"}, {Node: "n2"}}, false},
		"a pod on no node":       {[]Node{one}, []Pod{{Node: "n1"}, {}}, false},
		"two nodes":              {[]Node{one, other}, []Pod{{Node: "n1"}}, false},
		"no node":                {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := alone(tt.nodes, tt.pods)
			require.Equal(t, tt.want, got != nil)
			if got != nil {
				require.Equal(t, tt.nodes[0], *got)
			}
		})
	}
}
