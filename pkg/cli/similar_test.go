package cli

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
