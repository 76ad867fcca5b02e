package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/metadata"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubelet is as much of one as an exec needs. One plays all nodes.
type kubelet struct {
	cluster *cluster
	running sync.WaitGroup
}

// startKubelet starts a kubelet that lasts until the test ends.
func (c *cluster) startKubelet() *httptest.Server {
	k := &kubelet{cluster: c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", k.exec)
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	c.t.Cleanup(func() {
		server.Close()
		k.running.Wait() // each ends soon after its client, see linger
	})
	return server
}

// execStreams are those of an exec without standard input.
var execStreams = []string{corev1.StreamTypeError, corev1.StreamTypeStdout, corev1.StreamTypeStderr}

const (
	// opening is how long a client may take to open its streams.
	opening = 10 * time.Second
	// linger is how long a connection stays after its last byte, if its client does.
	linger = 3 * time.Second
)

func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name, want := range map[string]bool{"input": false, "output": true, "error": true} { // a terminal changes nothing here
		if on, _ := strconv.ParseBool(query.Get(name)); on != want {
			http.Error(w, fmt.Sprintf("%s=%q is not what this kubelet can do", name, query.Get(name)), http.StatusBadRequest)
			return
		}
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return // it has answered
	}
	opened := make(chan httpstream.Stream, len(execStreams))
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		select {
		case opened <- s:
			return nil
		default:
			return fmt.Errorf("more streams than %v", execStreams)
		}
	})
	if conn == nil {
		return // it has answered
	}
	ran := command{namespace: r.PathValue("namespace"), pod: r.PathValue("pod"), container: r.PathValue("container"), args: query["command"]}
	k.running.Go(func() { k.answer(conn, opened, ran) })
}

// answer runs a command when the client has opened all streams.
func (k *kubelet) answer(conn httpstream.Connection, opened <-chan httpstream.Stream, c command) {
	defer conn.Close()
	late := time.NewTimer(opening)
	defer late.Stop()
	streams := map[string]httpstream.Stream{}
	for len(streams) < len(execStreams) {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		case <-late.C:
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	stderr, code, err := k.cluster.run(ctx, c)
	// A stream that its client has closed takes nothing, and nobody waits for it.
	_, _ = io.WriteString(streams[corev1.StreamTypeStderr], stderr)
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status(code, err))
	for _, name := range execStreams {
		if s := streams[name]; s != nil {
			_ = s.Close()
		}
	}
	gone := time.NewTimer(linger)
	defer gone.Stop()
	select {
	case <-conn.CloseChan():
	case <-gone.C:
	}
}

// status says how a command ended, or why it was not run.
func status(code int, err error) metav1.Status {
	switch {
	case err != nil:
		return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	case code != 0:
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with exit code %d", code),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
		}
	}
	return metav1.Status{Status: metav1.StatusSuccess}
}

// quiet is how long what agents read must have been the same before a verdict counts:
// some times what an agent takes for a change, on a busy machine. Without it a test
// that expects what was before could pass by what was before.
const quiet = 300 * time.Millisecond

// observed are the kinds that agents read.
var observed = []schema.GroupVersionResource{
	{Version: "v1", Resource: "namespaces"},
	{Version: "v1", Resource: "nodes"},
	{Version: "v1", Resource: "pods"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"},
}

// settled waits until what agents read has been the same for some time. It looks
// itself, so the time starts with the first call after a change.
func (c *cluster) settled(ctx context.Context) error {
	lister, err := metadata.NewForConfig(admin)
	if err != nil {
		return err
	}
	for {
		have, err := versions(ctx, lister)
		if err != nil {
			return err
		}
		left := c.unchanged(have)
		if left <= 0 {
			return nil
		}
		wait := time.NewTimer(left)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
}

// unchanged notes a state and returns how much of quiet is left.
func (c *cluster) unchanged(state string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != c.seen {
		c.seen, c.at = state, time.Now()
	}
	return quiet - time.Since(c.at)
}

// versions says what there is, and its versions.
func versions(ctx context.Context, lister metadata.Interface) (string, error) {
	var all strings.Builder
	for _, kind := range observed {
		list, err := lister.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			fmt.Fprintln(&all, list.Items[i].UID, list.Items[i].ResourceVersion)
		}
	}
	return all.String(), nil
}
