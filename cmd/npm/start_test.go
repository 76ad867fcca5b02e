package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/switchboard"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// start is the same program with a real client; here that is the simulator.
func TestStart(t *testing.T) {
	fake := newFake()
	require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	s := start(t, fake, "{}")
	s.log("node IP is 10.9.0.1")
	s.log("updating endpoint cache to include 10.0.0.1: e1")
	s.log("applied")
	s.becomes("/readyz", 200, "ok\n")
	s.becomes("/healthz", 200, "ok\n")

	_, body := s.get("/npm/v1/debug/manager")
	var dump struct {
		NodeName      string
		NodeAddresses []string `json:"nodeAddresses"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &dump))
	require.Equal(t, "win-1", dump.NodeName)
	require.Equal(t, []string{"10.9.0.1"}, dump.NodeAddresses)

	_, body = s.get("/node-metrics")
	require.Contains(t, body, `npm_hns_calls_total{operation="Network/Get"} 2`) // the wait, and the first transaction
	require.Contains(t, body, `npm_controller_pod_exec_time_count{had_error="false",operation="create"} 1`)
	_, body = s.get("/cluster-metrics")
	require.Contains(t, body, "npm_pods_watched 1")

	fake.set(func() { fake.sick = errors.New("the call ACL/Update hangs") })
	s.becomes("/healthz", 503, "the call ACL/Update hangs\n")
	fake.set(func() { fake.sick = nil })
	s.becomes("/healthz", 200, "ok\n")

	s.end()
	s.log("stopped")
	require.True(t, fake.closed)
}

// TestStartDryRun: a dry run says what it would write, writes nothing, tells the cluster
// nothing, is not ready, and waits for no other agent.
func TestStartDryRun(t *testing.T) {
	fake := newFake()
	fake.holders <- struct{}{} // another agent has the lock
	require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	before := fake.Dump()
	const policies = `[{"metadata":{"namespace":"x","name":"six","uid":"u6"},"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"fd00::/8"}}]}]}}]`
	told := make(chan string, 1)
	s := start(t, fake, "{}", "--dry-run", "--log-level", "debug", "--kubeconfig", serveAPI(t, policies, told))
	require.Equal(t, "sets 0, endpoints 1", s.log("dry run: this would be written to HNS")["writes"])
	s.log("dry run: endpoint e1 of pod x/a gets 3000 block in azure-acl-npm-block-in")
	s.becomes("/readyz", 503, "dry run: nothing is written to HNS\n")
	s.becomes("/healthz", 200, "ok\n")
	s.end()
	require.Equal(t, before, fake.Dump())
	require.Empty(t, told)
}

// What is left out of a policy is told on it.
func TestStartTellsOfPolicies(t *testing.T) {
	told := make(chan string, 1)
	const policies = `[{"metadata":{"namespace":"x","name":"six","uid":"u6"},"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"fd00::/8"}}]}]}}]`
	s := start(t, newFake(), "{}", "--kubeconfig", serveAPI(t, policies, told))
	got := <-told
	require.True(t, strings.HasPrefix(got, "POST /apis/events.k8s.io/v1/namespaces/x/events "), got)
	for _, part := range []string{"IPv6Peer", "NetworkPolicy", "six", "u6", "win-1", "fd00::/8"} {
		require.Contains(t, got, part)
	}
	s.end()
}

// TestStartWaitsForTheNetwork: without its network the agent is healthy, but not ready.
func TestStartWaitsForTheNetwork(t *testing.T) {
	startInMemory(t, "[]", noNetwork, func(t *testing.T, m *inMemory) {
		require.Equal(t, "hns Network/Get: network azure: not found", m.log("waiting for the HNS network")["reason"])
		pages := m.pages()
		require.EqualError(t, pages.Ready(), "waiting for the HNS network of the pods")
		require.NoError(t, pages.Healthy())
		require.Empty(t, pages.Dump().Endpoints)
		m.fake.set(func() { m.fake.gone = nil })
		m.log("the HNS network is there")
		synctest.Wait()
		require.NoError(t, pages.Ready())
	})
}

// A call that never returns must not keep the process from ending.
func TestStartStopsWhileACallHangs(t *testing.T) {
	kubeconfig := apiServer(t) // nobody asks it
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		hang := make(chan struct{})
		defer close(hang)
		fake.hang = hang
		this := fake.host()
		this.listen = func(context.Context, string) (net.Listener, error) { return switchboard.New(), nil }
		ctx, cancel := context.WithCancel(t.Context())
		s, write := newStarted(t, cancel)
		logger, err := cli.NewLogger(write, "info")
		require.NoError(t, err)
		go func() {
			err := runAgent(ctx, settings{config: defaultConfig(), Node: "win-1", kubeconfig: kubeconfig, Reconcile: time.Minute}, this, fake, logger)
			_ = write.Close()
			s.ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		s.end()
		require.Equal(t, shutdownWait, time.Since(began))
		s.log("HNS has not returned from a call, ending without waiting for it")
	})
}

func TestStartSettings(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		args         []string
		pipe         string
		codes        map[string]int
	}{
		{"defaults", "{}", nil, "", map[string]int{"/npm/v1/debug/manager": 200, "/debug/pprof/": 404, "/debug/pprof/goroutine?debug=1": 404,
			"/node-metrics": 200, "/cluster-metrics": 200}},
		{"profiles and a pipe", `{"CNIPipe": "\\\\.\\pipe\\mine", "Toggles": {"EnablePprof": true}}`, nil, `\\.\pipe\mine`, map[string]int{"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200}},
		{"pages off", `{"Toggles": {"EnableHTTPDebugAPI": false, "EnablePrometheusMetrics": false}}`, nil, "",
			map[string]int{"/npm/v1/debug/manager": 404, "/debug/pprof/": 404, "/node-metrics": 404, "/cluster-metrics": 404, "/healthz": 200}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake, pipes := newFake(), make(chan string, 1)
			fake.pipe = func(path string) (net.Listener, error) {
				pipes <- path
				return switchboard.New(), nil
			}
			s := start(t, fake, tc.config, tc.args...)
			s.becomes("/readyz", 200, "ok\n")
			require.Equal(t, cmp.Or(tc.pipe, defaultConfig().CNIPipe), <-pipes)
			for path, want := range tc.codes {
				code, _ := s.get(path)
				require.Equal(t, want, code, path)
			}
			s.end()
		})
	}
}

// TestNamesOfMetrics: the metrics for other machines contain no names of sets.
func TestNamesOfMetrics(t *testing.T) {
	a := &agent{set: settings{config: config{Metrics: true}}, metrics: debug.NewMetrics(debug.MetricsConfig{
		Now: time.Now, Staleness: func() map[string]time.Duration { return nil },
		Stats: func() state.Stats { return state.Stats{Sets: []state.SetStats{{ID: "i", Name: "ns-shop", Entries: 3}}} },
	})}
	pages := a.pages()
	for page, want := range map[*http.Handler]string{
		&pages.ClusterMetrics:       `npm_ipset_counts{set_hash="i",set_name="ns-shop"} 3`,
		&pages.PublicClusterMetrics: `npm_ipset_counts{set_hash="others",set_name="others"} 3`,
	} {
		rec := httptest.NewRecorder()
		(*page).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Contains(t, rec.Body.String(), want)
		require.Equal(t, 1, strings.Count(rec.Body.String(), "npm_ipset_counts{"))
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad.json"), filepath.Join(dir, "good.json")
	require.NoError(t, os.WriteFile(bad, []byte(`{"ListeningPort": 70000}`), 0o600))
	require.NoError(t, os.WriteFile(good, []byte(`{}`), 0o600))
	_, noFile := os.Stat("none") // systems say it in their own words
	kubeconfig := []string{"--kubeconfig", apiServer(t), "--listen", "127.0.0.1:0", "--listen-probes", "127.0.0.1:0"}
	noDLL := fmt.Errorf("%w: load computenetwork.dll: no such module", hcsadapter.ErrMissing)
	const needs = "the Host Networking Service of Windows Server 2022 or later is missing: load computenetwork.dll: no such module"

	for _, tc := range []struct {
		name    string
		host    string
		config  string
		args    []string
		connect error
		change  func(*fakeService)
		want    string
	}{
		{"no node name", "", good, nil, nil, nil, "the environment does not name the node: set HOSTNAME to spec.nodeName"},
		{"no kubeconfig", "win-1", good, []string{"--kubeconfig", "none"}, nil, nil, "kubeconfig none: " + noFile.Error()},
		{"no such configuration", "win-1", "none.json", nil, nil, nil, "none.json: no such file; correct NPM_CONFIG, or unset it for defaults"},
		{"bad configuration", "win-1", bad, nil, nil, nil, bad + ": ListeningPort: expected a whole number from 1 to 65535, found 70000"},
		{"missing DLL", "win-1", good, nil, noDLL, nil, needs},
		{"no HNS on this system", "win-1", good, nil, errors.New("not here"), nil, "not here"},
		{"no address", "win-1", good, append(kubeconfig, "--listen", "10091"), nil, nil,
			"HTTP endpoint: listen tcp: address 10091: missing port in address; another address goes into --listen or ListeningAddress and ListeningPort"},
		{"no lock", "win-1", good, kubeconfig, nil, func(f *fakeService) { f.lockErr = errors.New("lock x: denied") },
			"keeping other agents off this node: lock x: denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := newFake()
			if tc.change != nil {
				tc.change(fake)
			}
			env := map[string]string{"HOSTNAME": tc.host, configEnv: tc.config}
			system := fake.host()
			system.connect = func(o hcsadapter.Options) (hcsadapter.Client, error) {
				require.Equal(t, hcsadapter.Options{Deadline: 2 * time.Minute}, hcsadapter.Options{Network: o.Network, Deadline: o.Deadline})
				return fake, tc.connect
			}
			cmd := newStart(cli.Streams{Err: io.Discard}, func(key string) string { return env[key] }, system)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{}, tc.args...)) // none is not nil, which means those of the process
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			require.EqualError(t, cmd.ExecuteContext(ctx), tc.want)
		})
	}
}
