package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/whatif"
)

// TestFailOn: what is not known after a change counts as opened and as blocked, so that a
// gate of CI stays shut for it.
func TestFailOn(t *testing.T) {
	for name, tc := range map[string]struct {
		of                   whatif.Tally
		opened, blocked, any bool
	}{
		"nothing":   {whatif.Tally{}, false, false, false},
		"opened":    {whatif.Tally{Flipped: 1, Opened: 1}, true, false, true},
		"blocked":   {whatif.Tally{Flipped: 1, Blocked: 1}, false, true, true},
		"not known": {whatif.Tally{Flipped: 1, Unknown: 1}, true, true, true},
	} {
		for on, want := range map[string]bool{"opened": tc.opened, "blocked": tc.blocked, "any": tc.any, "": false} {
			o := planOptions{failOn: on}
			require.Equal(t, want, o.fails(whatif.Plan{Tally: tc.of}), "%s, --fail-on %q", name, on)
		}
	}
}
