package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command runs a command line.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(stdin), &out, &errs}, func(string) string { return "" })
	return code, out.String(), errs.String()
}

const shop = "../../examples/shop"

func TestCommandLine(t *testing.T) {
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
		{"version", 0, "npm ", ""},
		{"--help", 0, "simulate", ""},
		{"simulate --help", 0, "--matrix PORT/PROTO", ""},

		{"simulate --manifests none --once", 1, "", "npm simulate: none: cannot be read: no such file or directory; check the path"},
		{"simulate --kubeconfig none --once", 1, "", "npm simulate: kubeconfig none: stat none: no such file or directory"},
		{"start", 1, "", "npm: this build cannot reach a Host Networking Service on " + runtime.GOOS + "; npm simulate runs everywhere"},

		{"", 2, "", "npm: say which command: simulate, start or version; npm --help explains them"},
		{"stimulate", 2, "", `npm: unknown command "stimulate" for "npm"`},
		{"simulate", 2, "", "npm simulate: nothing to simulate: give --manifests PATH or --kubeconfig FILE"},
		{"simulate extra", 2, "", `npm: unknown command "extra" for "npm simulate"`},
		{"simulate --nonsense", 2, "", "npm: unknown flag: --nonsense"},
		{"simulate --matrix", 2, "", "npm: flag needs an argument: --matrix"},
		{"simulate --once=perhaps", 2, "", `npm: invalid argument "perhaps" for "--once" flag: strconv.ParseBool: parsing "perhaps": invalid syntax`},
		{"simulate --manifests " + shop + " --once --serve :0", 2, "", "npm simulate: --once and --serve exclude each other: --once ends where --serve would begin"},
		{"simulate --manifests " + shop + " --log-level loud", 2, "", `npm: --log-level "loud": off, error, info and debug are levels`},
		{"start --log-level loud", 2, "", `npm: --log-level "loud": off, error, info and debug are levels`},
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

func TestFlagsAreNotSplitAtCommas(t *testing.T) {
	// A repeated flag is a list; a comma is a mistake to point out.
	code, _, stderr := command(t, "", "simulate", "--manifests", shop, "--once", "--matrix", "80/TCP,443/TCP")
	require.Equal(t, 2, code)
	require.Equal(t, "npm simulate: --matrix \"80/TCP,443/TCP\": \"TCP,443/TCP\" is no protocol: TCP, UDP and SCTP are\n", stderr)
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

// start is the same program with a real client; here that is the simulator.
func TestStart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kinds := map[string]string{"pods": "PodList", "namespaces": "NamespaceList", "nodes": "NodeList", "networkpolicies": "NetworkPolicyList"}
		kind := kinds[filepath.Base(r.URL.Path)]
		switch query := r.URL.Query(); {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		case query.Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		case kind == "NodeList" && query.Get("fieldSelector") != "metadata.name=win-1":
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		version, items := "v1", "[]"
		switch kind {
		case "NetworkPolicyList":
			version = "networking.k8s.io/v1"
		case "NodeList":
			items = `[{"metadata":{"name":"win-1"},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.1"}]}}]`
		}
		_, _ = io.WriteString(w, `{"apiVersion":"`+version+`","kind":"`+kind+`","metadata":{"resourceVersion":"1"},"items":`+items+`}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
  clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`), 0o600))

	sim := hnssim.New(hnssim.Options{})
	connect := func() (hns.Client, error) { return sim, nil }
	ctx, cancel := context.WithCancel(t.Context())
	logs, logWriter := io.Pipe()
	cmd := newStart(streams{err: logWriter}, func(key string) string { return map[string]string{"HOSTNAME": "win-1"}[key] }, connect)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"})
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		_ = logWriter.Close()
	}()

	dec := json.NewDecoder(logs)
	next := func(msg string) map[string]any {
		for {
			var entry map[string]any
			require.NoError(t, dec.Decode(&entry))
			if entry["msg"] == msg {
				return entry
			}
		}
	}
	addr, _ := next("starting")["listening"].(string)
	next("applied")
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/npm/v1/debug/manager")
	require.NoError(t, err)
	var dump struct {
		NodeName      string
		NodeAddresses []string `json:"nodeAddresses"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&dump))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "win-1", dump.NodeName)
	require.Equal(t, []string{"10.9.0.1"}, dump.NodeAddresses)
	require.Equal(t, 1, sim.Counts()["Network/Get"])

	cancel()
	require.NoError(t, <-ended)
	server.CloseClientConnections()
}

func TestStartErrors(t *testing.T) {
	connect := func() (hns.Client, error) { return hnssim.New(hnssim.Options{}), nil }
	for _, tc := range []struct {
		host string
		args []string
		want string
	}{
		{"", nil, "the environment does not name the node: set HOSTNAME to spec.nodeName"},
		{"win-1", []string{"--kubeconfig", "none"}, "kubeconfig none: stat none: no such file or directory"},
	} {
		cmd := newStart(streams{err: io.Discard}, func(string) string { return tc.host }, connect)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(tc.args)
		require.EqualError(t, cmd.ExecuteContext(t.Context()), tc.want)
	}
}
