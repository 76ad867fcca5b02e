package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/simulate"
)

// TestUsageThatMisleads: what cannot be meant is wrong usage, before anything is read or asked:
// an empty --fail-on would switch a gate of CI off, and asking without a pause never ends.
func TestUsageThatMisleads(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"fail-on of an empty variable": {[]string{"plan", "-f", "x.yaml", "--fail-on", ""}, `--fail-on "": give opened, blocked or any`},
		"direct without an authority":  {[]string{"trace", "a/b", "c/d:80", "--direct"}, "--direct: give --agent-ca FILE"},
		"status direct":                {[]string{"status", "--direct"}, "--direct: give --agent-ca FILE"},
		"status without a pause":       {[]string{"status", "-w", "--interval", "0s"}, "--interval 0s: give a pause"},
		"status in no time":            {[]string{"status", "--timeout", "-1s"}, "--timeout -1s: give an agent some time"},
		"check without a pause":        {[]string{"check", "a/b", "--wait", "--interval", "0s"}, "--interval 0s: give a pause"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := command(t, "", tc.args...)
			require.Equal(t, simulate.ExitUsage, code)
			require.Empty(t, out)
			require.Contains(t, errs, tc.says)
		})
	}
}
