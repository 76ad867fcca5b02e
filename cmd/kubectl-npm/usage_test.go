package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
)

// TestUsageThatMisleads: what cannot be meant is wrong usage, before anything is read or asked:
// an empty --fail-on would switch a gate of CI off, and asking without a pause never ends.
func TestUsageThatMisleads(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"fail-on of an empty variable": {[]string{"plan", "-f", "x.yaml", "--fail-on", ""}, `--fail-on "": give opened, blocked or any`},
		"status in no time":            {[]string{"status", "--timeout", "-1s"}, "--timeout -1s: it must be above 0"},
		"check without a pause":        {[]string{"check", "a/b", "--wait", "--interval", "0s"}, "--interval 0s: it must be above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := command(t, "", tc.args...)
			require.Equal(t, cli.ExitUsage, code)
			require.Empty(t, out)
			require.Contains(t, errs, tc.says)
		})
	}
}

// TestOddQuestions: what cannot be a connection is wrong usage, before anything is read.
func TestOddQuestions(t *testing.T) {
	for to, says := range map[string]string{
		"db-0:99999999999999999999": `"99999999999999999999" is no port: a number from 1 to 65535 is, and a name like http`,
		"db-0:65536":                `"65536" is no port`,
		"db-0:0":                    `"0" is no port`,
		"db-0:-1":                   `"-1" is no port`,
		"db-0:/TCP":                 `"" is no port`,
		"db-0:":                     `"" is no port`,
		"db-0:80/":                  `"" is no protocol: TCP, UDP and SCTP are`,
		"db-0:http/ICMP":            `"ICMP" is no protocol`,
		"[::1]:80":                  "::1 is no IPv4 address; WinNPM judges IPv4 only",
		"::1:80":                    "::1 is no IPv4 address",
		"db-0:80:80":                `"db-0:80" is neither a name nor an IPv4 address: write FROM TO:PORT/PROTO`,
		":80":                       `"" is neither a name nor an IPv4 address`,
		"db 0:80":                   `"db 0" is neither a name nor an IPv4 address`,
		"":                          "write FROM->TO:PORT/PROTO",
	} {
		code, out, errs := command(t, "", "trace", "-n", "x", "web-0", to, "--dump", "none.json")
		require.Equal(t, cli.ExitUsage, code, to)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		require.Contains(t, errs, `kubectl npm: trace "web-0 `+to+`": `+says)
	}
}
