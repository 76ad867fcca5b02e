package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// TestStartOfAPod: an answer says how long a pod that its policies isolate was open when it
// started, or how long its CNI waited.
func TestStartOfAPod(t *testing.T) {
	for want, start := range map[string]*state.Start{
		"": nil,
		"  It was open for 400ms or longer at its start, until 2026-01-02T03:04:05Z.\n":    {Since: taken.Add(-400 * time.Millisecond), Until: taken},
		"  Its rules were there 50ms after its CNI told of it, at 2026-01-02T03:04:05Z.\n": {Since: taken.Add(-50 * time.Millisecond), Until: taken, Told: true},
	} {
		d, places := snapshot(t)
		for i := range d.Pods {
			if d.Pods[i].Pod == "x/web" {
				d.Pods[i].Start = start
			}
		}
		answer, err := explain.Explain(d, explain.Question{From: "z/cache-0", To: "x/web", Port: 80, Protocol: policy.TCP}, places)
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, answer.WriteText(&text))
		require.Equal(t, strings.Contains(text.String(), " at its start, ") || strings.Contains(text.String(), "Its rules were"), want != "")
		require.Contains(t, text.String(), want)
		require.Equal(t, start, answer.Ingress.Start)
	}
}
