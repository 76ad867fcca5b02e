package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/switchboard"
)

// fakeService is the simulator as the HNS of a node.
type fakeService struct {
	*hnsfault.Sim

	mu     sync.Mutex // guards following
	gone   error      // what Network answers; nil: the simulator
	sick   error
	hang   chan struct{} // Network hangs until it is closed, whatever ctx says
	closed bool

	holders chan struct{} // one place: who is in it has the node's lock
	lockErr error
	pipe    func(path string) (net.Listener, error)
}

func newFake() *fakeService {
	return &fakeService{
		Sim: hnsfault.New(hnsfault.Options{}), holders: make(chan struct{}, 1),
		pipe: func(string) (net.Listener, error) { return switchboard.New(), nil },
	}
}

func (f *fakeService) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeService) Network(ctx context.Context) (hns.Network, error) {
	f.mu.Lock()
	gone, hang := f.gone, f.hang
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if gone != nil {
		return hns.Network{}, gone
	}
	return f.Sim.Network(ctx)
}

func (*fakeService) OnlyOf(func(netip.Addr) bool) {}

func (f *fakeService) Healthy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sick
}

func (f *fakeService) lock(ctx context.Context, waiting func()) (unlock func(), err error) {
	if f.lockErr != nil {
		return nil, f.lockErr
	}
	unlock = func() { <-f.holders }
	select {
	case f.holders <- struct{}{}:
		return unlock, nil
	default:
		waiting()
	}
	select {
	case f.holders <- struct{}{}:
		return unlock, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// host is a system with this HNS.
func (f *fakeService) host() host {
	return host{
		connect: func(hcsadapter.Options) (hcsadapter.Client, error) { return f, nil },
		lock:    f.lock, listen: debug.Listen,
		pipe: f.pipe,
	}
}

func (f *fakeService) Close() { f.set(func() { f.closed = true }) }

// apiServer has one node, win-1, and a pod on it, and no ClusterNetworkPolicies.
func apiServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	return serveAPI(t, "[]", nil)
}

// serveAPI is apiServer with a JSON list of policies; told gets what is written.
func serveAPI(t *testing.T, policies string, told chan<- string) (kubeconfig string) {
	t.Helper()
	return serveKube(t, kube(policies, told))
}

// kube is the handler of an API server with a JSON list of policies; it sends what is written to told.
func kube(policies string, told chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kinds := map[string]string{"pods": "PodList", "namespaces": "NamespaceList", "nodes": "NodeList", "networkpolicies": "NetworkPolicyList"}
		kind := kinds[filepath.Base(r.URL.Path)]
		switch query := r.URL.Query(); {
		case r.URL.Path == "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
			return
		case strings.HasPrefix(r.URL.Path, "/apis/policy.networking.k8s.io/"):
			http.NotFound(w, r)
			return
		case r.Method != http.MethodGet:
			body, _ := io.ReadAll(r.Body) // what is missing is missed
			told <- r.Method + " " + r.URL.Path + " " + string(body)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{}")
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
			version, items = "networking.k8s.io/v1", policies
		case "NodeList":
			items = `[{"metadata":{"name":"win-1","annotations":{"key":"secret-of-a-node"}},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.1"}]}}]`
		case "PodList":
			items = `[{"metadata":{"namespace":"x","name":"a","uid":"u","annotations":{"key":"secret-of-a-pod"}},
				"spec":{"nodeName":"win-1","containers":[{"name":"c","env":[{"name":"KEY","value":"secret-of-a-container"}]}]},"status":{"phase":"Running","podIP":"10.0.0.1"}}]`
		}
		_, _ = io.WriteString(w, `{"apiVersion":"`+version+`","kind":"`+kind+`","metadata":{"resourceVersion":"1"},"items":`+items+`}`)
	}
}

// serveKube serves an API server until the test ends.
func serveKube(t *testing.T, api http.Handler) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	kubeconfig = filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
  clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`), 0o600))
	return kubeconfig
}

// started is an npm start that runs.
type started struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
	logs  chan map[string]any
	early []map[string]any // lines before the one that listens waited for
	addr  string
}

// start runs npm start with a configuration until stop or the end of the test, and
// waits until it listens.
func start(t *testing.T, fake *fakeService, config string, args ...string) *started {
	t.Helper()
	s := launch(t, fake, config, args...)
	s.log("starting")
	s.listens()
	return s
}

// launch is start that does not wait.
func launch(t *testing.T, fake *fakeService, config string, args ...string) *started {
	t.Helper()
	file := filepath.Join(t.TempDir(), "azure-npm.json")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	s, write := newStarted(t, cancel)
	env := map[string]string{"HOSTNAME": "win-1", configEnv: file}
	cmd := newStart(cli.Streams{Err: write}, func(key string) string { return env[key] }, fake.host())
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--kubeconfig", apiServer(t), "--listen", "127.0.0.1:0", "--listen-probes", "127.0.0.1:0"}, args...))
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = write.Close()
		s.ended <- err
	}()
	return s
}

// newStarted returns a started that reads the log from what is written, until that is closed.
func newStarted(t *testing.T, stop context.CancelFunc) (*started, *io.PipeWriter) {
	read, write := io.Pipe()
	s := &started{t: t, stop: stop, ended: make(chan error, 1), logs: make(chan map[string]any, 10_000)}
	go func() {
		defer close(s.logs)
		for dec := json.NewDecoder(read); ; {
			var entry map[string]any
			if dec.Decode(&entry) != nil {
				return
			}
			s.logs <- entry
		}
	}()
	return s, write
}

// inMemory is an agent without HTTP endpoints, whose API server and pipe are in memory.
type inMemory struct {
	*started
	*agent
	fake *fakeService
	pipe *switchboard.Switchboard
}

// startInMemory runs an agent in a bubble of testing/synctest while play lasts. prepare changes its HNS first.
func startInMemory(t *testing.T, policies string, prepare func(*fakeService), play func(t *testing.T, m *inMemory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := switchboard.New()
		server := &http.Server{Handler: kube(policies, nil)}
		go func() { _ = server.Serve(api) }() // until Close
		defer server.Close()
		config := &rest.Config{Host: "http://api", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return api.Dial(ctx) }}
		source, err := controllers.ClusterSource(config, "win-1")
		require.NoError(t, err)
		sink, err := controllers.ClusterSink(config)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		m := &inMemory{fake: newFake(), pipe: switchboard.New()}
		set := settings{config: defaultConfig(), Node: "win-1", Reconcile: 5 * time.Minute}
		set.CNIPipe = `\\.\pipe\test`
		m.fake.pipe = func(path string) (net.Listener, error) {
			require.Equal(t, set.CNIPipe, path)
			return m.pipe, nil
		}
		prepare(m.fake)
		s, write := newStarted(t, cancel)
		logger, err := cli.NewLogger(write, "info")
		require.NoError(t, err)
		m.started = s
		m.agent = newAgent(set, source, sink, m.fake.host(), m.fake, logger)
		go func() {
			err := m.work(ctx)
			_ = write.Close()
			s.ended <- err
		}()
		defer s.end()
		play(t, m)
	})
}

// end stops the agent, which succeeds.
func (s *started) end() {
	s.t.Helper()
	s.stop()
	require.NoError(s.t, <-s.ended)
}

// listens waits until the HTTP endpoint is there.
func (s *started) listens() {
	s.t.Helper()
	for entry := range s.logs {
		if msg, _ := entry["msg"].(string); strings.HasPrefix(msg, "Starting NPM HTTP API on ") {
			s.addr = strings.TrimPrefix(msg, "Starting NPM HTTP API on ")
			return
		}
		s.early = append(s.early, entry) // it listens and works at the same time
	}
	require.Fail(s.t, "it ended before it listened")
}

// log returns the next line with a message, and passes over those before it.
func (s *started) log(msg string) map[string]any {
	s.t.Helper()
	for i, entry := range s.early {
		if entry["msg"] == msg {
			s.early = s.early[i+1:]
			return entry
		}
	}
	s.early = nil
	for entry := range s.logs {
		if entry["msg"] == msg {
			return entry
		}
	}
	require.Failf(s.t, "the log ended", "%q was not logged", msg)
	return nil
}

// get asks the HTTP endpoint.
func (s *started) get(path string) (int, string) {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.addr + path)
	require.NoError(s.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	return resp.StatusCode, string(body)
}

// becomes waits for an answer.
func (s *started) becomes(path string, code int, body string) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		gotCode, gotBody := s.get(path)
		assert.Equal(c, code, gotCode)
		assert.Equal(c, body, gotBody)
	}, 30*time.Second, 10*time.Millisecond)
}
