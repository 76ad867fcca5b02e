package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/agents"
)

// fakeAgents are the agents of a cluster without an API server.
type fakeAgents struct {
	all      []agents.OnNode
	nodesErr error
	err      error
	answers  map[string]http.Handler // by node; an agent without one hangs
}

func (f *fakeAgents) All(context.Context) (all []agents.OnNode, nodesErr, err error) {
	return f.all, f.nodesErr, f.err
}

func (f *fakeAgents) Find(_ context.Context, node string) (agents.Agent, error) {
	for _, on := range f.all {
		if on.Node == node {
			return on.Agent, on.Err
		}
	}
	return agents.Agent{}, agents.ErrNoAgent
}

func (f *fakeAgents) Get(ctx context.Context, a agents.Agent, path string, use func(io.Reader) error) error {
	if f.answers[a.Node] == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.RemoteAddr, req.Host = "127.0.0.1:1", "127.0.0.1"
	rec := httptest.NewRecorder()
	f.answers[a.Node].ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		return fmt.Errorf("status %d", rec.Code)
	}
	return use(rec.Body)
}

// nodesInTrouble is a cluster: win-1 is well, win-2 is not ready, win-3 hangs, win-4 has no agent.
func nodesInTrouble() *fakeAgents {
	well := state.Dump{Node: "win-1", Time: taken, Pods: []state.PodDump{{Pod: "x/a", Local: true}, {Pod: "x/b"}}}
	fine := func() error { return nil }
	f := &fakeAgents{answers: map[string]http.Handler{
		"win-1": debug.Handler(debug.Config{Dump: func() state.Dump { return well }, Healthy: fine, Ready: fine, Version: "v7"}),
		"win-2": debug.Handler(debug.Config{Dump: behind, Healthy: fine, Ready: func() error { return errors.New("<b>pods</b> is forbidden") }, Version: "v7"}),
	}}
	for _, node := range []string{"win-1", "win-2", "win-3"} {
		f.all = append(f.all, agents.OnNode{Node: node, Agent: agents.Agent{Node: node}})
	}
	f.all = append(f.all, agents.OnNode{Node: "win-4", Err: agents.ErrNoAgent})
	return f
}

var markup = regexp.MustCompile(`(?s)<[^>]*>|\n`)

// TestNodes: the front page lists every node with its state, also those that do not answer.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rec := get(t, ClusterHandler(nodesInTrouble()), "/")
		require.Equal(t, statusTimeout, time.Since(began))
		require.Equal(t, http.StatusOK, rec.Code)
		require.Contains(t, rec.Header().Get("Content-Security-Policy"), "default-src 'none'")
		body := rec.Body.String()
		var rows []string
		for row := range strings.SplitSeq(body[strings.Index(body, "<tbody>"):], "<tr>") {
			rows = append(rows, strings.Join(strings.Fields(markup.ReplaceAllString(row, " ")), " "))
		}
		require.Equal(t, []string{
			"",
			"win-1 ready v7 1 0 0 0 0",
			"win-2 not ready: &lt;b&gt;pods&lt;/b&gt; is forbidden v7 3 1 2 2 1",
			"win-3 no answer: no answer within 10s",
			"win-4 no answer: no agent",
		}, rows)
		require.Contains(t, body, `<a href="nodes/win-1/">win-1</a>`)
	})
}

// TestNodesThatCannotBeListed: the page says why.
func TestNodesThatCannotBeListed(t *testing.T) {
	cluster := nodesInTrouble()
	cluster.all, cluster.err = nil, errors.New("pods is forbidden")
	require.Contains(t, get(t, ClusterHandler(cluster), "/").Body.String(), ">pods is forbidden</p>")
	require.JSONEq(t, `{"error":"pods is forbidden"}`, get(t, ClusterHandler(cluster), "/nodes/win-1/").Body.String())
	cluster.nodesErr, cluster.err = errors.New("nodes is forbidden"), nil
	require.Contains(t, get(t, ClusterHandler(cluster), "/").Body.String(), "nodes without an agent are not known: nodes is forbidden")
}

// TestPageOfANode: below /nodes/NAME/ is the page of Handler, with the dump and the status of the
// node's agent.
func TestPageOfANode(t *testing.T) {
	h := ClusterHandler(nodesInTrouble())
	require.Contains(t, get(t, h, "/nodes/win-1/").Body.String(), `src="ui/app.js"`)
	require.Equal(t, http.StatusOK, get(t, h, "/nodes/win-1/ui/app.js").Code)
	require.Contains(t, get(t, h, "/nodes/win-1/api/pods").Body.String(), `"pod":"x/a"`)
	require.Contains(t, get(t, h, "/nodes/win-1/api/status").Body.String(), `"version":"v7"`)
	require.Contains(t, get(t, h, "/nodes/win-2/api/pods/x/web").Body.String(), `"pod":"x/web"`)
	require.JSONEq(t, `{"error":"no agent"}`, get(t, h, "/nodes/win-4/api/pods").Body.String())
	require.Equal(t, http.StatusTemporaryRedirect, get(t, h, "/nodes/win-1").Code)
	require.Equal(t, http.StatusNotFound, get(t, h, "/nodes/other/").Code, "a page for each name that is asked for would need memory without a bound")
}
