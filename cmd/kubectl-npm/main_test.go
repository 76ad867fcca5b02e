package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/cli"
)

func TestMain(m *testing.M) {
	// It stays for a second when the other end was quicker to close.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// command runs a command line.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}

const shop = "../../examples/shop"

// TestErrorLine: what an error quotes of others neither makes a second line nor steers the terminal.
func TestErrorLine(t *testing.T) {
	require.Equal(t, "a b \uFFFD[2J", cli.Line(errors.New("a\nb \x1b[2J")))
	require.Equal(t, "plan: interrupted", cli.Line(fmt.Errorf("plan: %w", context.Canceled)))
}

// Logs are lines of JSON on stderr; without being asked for there are none.
func TestLogs(t *testing.T) {
	_, _, stderr := command(t, "", "simulate", "--manifests", shop, "--once", "--log-level", "info")
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	applied := false
	for _, line := range lines {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		applied = applied || entry["msg"] == "applied"
	}
	require.True(t, applied, stderr)
}
