package hnsd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailed(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	c.refused(codeNetworkNotFound, "HcnOpenNetwork", request{id: guidOf("no")})
	s.Inject(Fault{Proc: "HcnEnumerateNetworks", Record: "degraded", Done: true})
	require.NotNil(t, c.call("HcnEnumerateNetworks", request{text: [2]string{allQuery}}).record)
	c.ids("HcnEnumerateNetworks", allQuery)
	require.Equal(t, map[string]int{"HcnOpenNetwork": 1, "HcnEnumerateNetworks": 1}, s.Failed())
	s.ResetCounts()
	require.Empty(t, s.Failed())
}
