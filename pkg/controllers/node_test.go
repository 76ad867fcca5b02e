package controllers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClusterNodeAddresses: a node has each of its IPv4 addresses once. With more than maxNodeAddrs
// it is over its budget, so that no Accept matches it. It still has all of its addresses, so that
// a Deny matches each of them.
func TestClusterNodeAddresses(t *testing.T) {
	for more, over := range []string{"", "more than 64 addresses"} {
		var texts, want []string
		for i := range maxNodeAddrs + more {
			text := fmt.Sprintf("10.9.0.%d", i)
			texts, want = append(texts, text, "fd00::1", text, "name"), append(want, text)
		}
		node := newNode("n1", texts...)
		node.Labels = map[string]string{"role": "db"}
		is := ClusterNode(node)
		require.Equal(t, over, is.OverBudget)
		require.Equal(t, over == "", len(is.Labels) == 1)
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(is.Addrs))
	}
}
