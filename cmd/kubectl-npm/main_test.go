package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

const verbsText = "check, completion, plan, replay, simulate, status, support-bundle, trace, ui, version"

const shop = "../../examples/shop"

func TestCommandLine(t *testing.T) {
	_, noFile := os.Stat("none") // systems say it in their own words
	for _, tc := range []struct {
		args   string
		code   int
		stdout string // a part of it; "" for nothing at all
		stderr string // the line; "" for nothing at all
	}{
		{"simulate --manifests " + shop + " --once --matrix 80/TCP", 0, "MATRIX 80/TCP", ""},
		{"simulate --manifests " + shop + " --once -o json", 0, `{"sets":[`, ""},
		{"simulate --manifests ../../examples/limits --once", 3, "IPv6Peer", ""},
		{"simulate --manifests - --once", 0, "SETS (0)", ""},
		{"version", 0, "kubectl npm ", ""},
		{"--help", 0, "simulate", ""},
		{"simulate --help", 0, "--matrix PORT/PROTO", ""},
		{"simulate --help", 0, "shows the same node in a browser", ""},

		{"ui --manifests none", 1, "", "kubectl npm: ui: none: cannot be read: no such file or directory; check the path"},
		{"ui --node win-1", 2, "", "kubectl npm: ui: --node is for --manifests: the pages of a cluster list all nodes"},
		{"ui --listen nowhere", 2, "", `kubectl npm: ui: --listen "nowhere": address nowhere: missing port in address; write it like 127.0.0.1:10091`},
		{"simulate --manifests none --once", 1, "", "kubectl npm: simulate: none: cannot be read: no such file or directory; check the path"},
		{"simulate --kubeconfig none --once", 1, "", "kubectl npm: simulate: kubeconfig none: " + noFile.Error()},

		{"", 2, "", "kubectl npm: say which command: " + verbsText + "; kubectl npm --help explains them"},
		{"stimulate", 2, "", `kubectl npm: there is no command "stimulate"; did you mean simulate?`},
		{"simulate", 2, "", "kubectl npm: simulate: nothing to simulate: give --manifests PATH or --kubeconfig FILE"},
		{"simulate extra", 2, "", `kubectl npm: simulate: what is "extra"? It takes flags alone; kubectl npm simulate --help lists them`},
		{"simulate --nonsense", 2, "", "kubectl npm: simulate: there is no flag --nonsense; kubectl npm simulate --help lists them"},
		{"simulate --matrix", 2, "", "kubectl npm: simulate: --matrix needs a value: PORT/PROTO"},
		{"simulate --once=perhaps", 2, "", `kubectl npm: simulate: --once "perhaps": give true or false`},
		{"simulate --manifests " + shop + " --log-level loud", 2, "", `kubectl npm: simulate: --log-level "loud": off, error, warn, info and debug are levels`},
		{"trace", 2, "", "kubectl npm: trace: 0 arguments: write trace FROM TO:PORT/PROTO, like trace shop/web shop/db:5432/TCP"},
		{"trace a/b -> c/d:80/TCP", 2, "", "kubectl npm: trace: there is no flag -> (in ->); kubectl npm trace --help lists them"},
		{"trace a/b to c/d:80/TCP", 2, "", "kubectl npm: trace: 3 arguments: write trace FROM TO:PORT/PROTO, like trace shop/web shop/db:5432/TCP"},
		{"completion foo", 2, "", `kubectl npm: completion: there is no command "foo"; there is bash, fish, powershell, zsh`},
		{"completion", 2, "", "kubectl npm: completion: say for which shell: bash, fish, powershell or zsh"},
		{"status --request-timeout bogus", 2, "", `kubectl npm: status: --request-timeout "bogus": give a time, like 30s or 5m`},
		{"support-bundle --manifests " + shop + " -o -", 2, "", "kubectl npm: support-bundle: -o -: a bundle is a zip file, which is not for a terminal: give the name of a file"},
		{"replay", 2, "", "kubectl npm: replay: 0 arguments: write the file of one support bundle, like replay bundle.zip"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, stdout, stderr := command(t, "{apiVersion: v1, kind: Namespace, metadata: {name: x}}", strings.Fields(tc.args)...)
			require.Equal(t, tc.code, code, stderr)
			if tc.stdout == "" {
				require.Empty(t, stdout)
			} else {
				require.Contains(t, stdout, tc.stdout)
			}
			if tc.stderr == "" {
				require.Empty(t, stderr)
			} else {
				require.Equal(t, tc.stderr+"\n", stderr)
			}
		})
	}
}

// TestEmptyStream: what a failed command in a pipe leaves is not taken for a cluster without policies.
func TestEmptyStream(t *testing.T) {
	for _, stdin := range []string{"", "\n# nothing\n---\n"} {
		code, stdout, stderr := command(t, stdin, "simulate", "--manifests", "-", "--once")
		require.Equal(t, cli.ExitUsage, code)
		require.Empty(t, stdout)
		require.Equal(t, "kubectl npm: simulate: stdin: is empty; give it manifests\n", stderr)
	}
}

// TestErrorLine: what an error quotes of others neither makes a second line nor
// steers the terminal, and the types of this program are nobody's business.
func TestErrorLine(t *testing.T) {
	for stdin, want := range map[string]string{
		"[]":                              "it is a JSON array, which does not belong there",
		`{"NodeName":"n","pods":{"a":1}}`: "pods is a JSON object, which does not belong there",
	} {
		code, _, stderr := command(t, stdin, "trace", "a/b", "c/d:80/TCP", "--dump", "-")
		require.Equal(t, exitNoDump, code)
		require.Equal(t, "kubectl npm: trace: stdin: no dump of /npm/v1/debug/manager: "+want+"\n", stderr)
	}
	require.Equal(t, "a b \uFFFD[2J", cli.Line(errors.New("a\nb \x1b[2J")))
	require.Equal(t, "plan: interrupted", cli.Line(fmt.Errorf("plan: %w", context.Canceled)))
}

func TestFlagsAreNotSplitAtCommas(t *testing.T) {
	// A repeated flag is a list; a comma is a mistake to point out.
	code, _, stderr := command(t, "", "simulate", "--manifests", shop, "--once", "--matrix", "80/TCP,443/TCP")
	require.Equal(t, 2, code)
	require.Equal(t, "kubectl npm: simulate: --matrix \"80/TCP,443/TCP\": \"TCP,443/TCP\" is no protocol: TCP, UDP and SCTP are\n", stderr)
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
