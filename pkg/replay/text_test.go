package replay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/replay"
)

// TestTextOfAHostileBundle: what a bundle says is neither a line of its own nor
// an order to the terminal.
func TestTextOfAHostileBundle(t *testing.T) {
	text := func(evil string) string {
		finding := replay.Finding{Call: 1, Op: evil, Text: evil, Legend: evil, Lines: []string{evil}}
		r := replay.Result{Node: evil, Agent: evil, Differences: 1, First: 1, Stopped: evil, Final: []replay.Finding{finding}, Steps: []replay.Step{{
			Number: 1, Came: evil, Calls: []replay.Call{{Op: evil, Endpoint: evil, Error: evil}}, Findings: []replay.Finding{finding},
			Detail: &replay.Detail{Recorded: recorder.Step{Events: []recorder.Event{{Object: evil}}, Calls: []recorder.Call{{Endpoint: evil, Error: &recorder.Error{Message: evil}}}}},
		}}}
		var b strings.Builder
		require.NoError(t, r.WriteText(&b, replay.View{Verbose: true}))
		return b.String()
	}
	got := text("x\x1b[2J\nno differences\u202e")
	require.Equal(t, strings.Count(text("x"), "\n"), strings.Count(got, "\n"))
	require.NotContains(t, got, "\x1b")
	require.NotContains(t, got, "\u202e")
}
