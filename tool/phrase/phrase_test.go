package phrase

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimilar(t *testing.T) {
	names := []string{"egress", "ingress", "matchLabels", "podSelector", "podSelectors", "to"}
	for word, want := range map[string]string{
		"ingres": "ingress", "podselector": "podSelector", "podSelectrs": "podSelectors", "matchLabel": "matchLabels",
		"igress": "egress", // as near as ingress, and first
		"":       "", "TO": "to", "ta": "", "labels": "", "ports": "", "matchExpressions": "",
	} {
		require.Equal(t, want, Similar(word, names), word)
	}
}

func TestCount(t *testing.T) {
	require.Equal(t, []string{"0 pods", "1 pod", "2 pods", "1 policy", "3 policies"},
		[]string{Count(0, "pod"), Count(1, "pod"), Count(2, "pod"), Count(1, "policy"), Count(3, "policy")})
}
