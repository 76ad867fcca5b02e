package ui

import (
	"context"
	"errors"
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
)

// nodesInTrouble is a cluster: win-1 is well, win-2 is not ready, win-3 hangs, win-4 has no agent.
func nodesInTrouble(t *testing.T) ClusterConfig {
	well := state.Dump{Node: "win-1", Time: taken, Pods: []state.Pod{{Pod: "x/a", Local: true}, {Pod: "x/b"}}}
	fine := func() error { return nil }
	answers := map[string]http.Handler{
		"win-1": debug.Handler(debug.Config{Dump: func() state.Dump { return well }, Healthy: fine, Ready: fine, Version: "v7"}),
		"win-2": debug.Handler(debug.Config{Dump: behind, Healthy: fine, Ready: func() error { return errors.New("<b>pods</b> is forbidden") }, Version: "v7"}),
	}
	return ClusterConfig{
		Nodes: func(context.Context) ([]string, error, error) {
			return []string{"win-1", "win-2", "win-3", "win-4"}, nil, nil
		},
		Get: func(ctx context.Context, node, path string, use func(io.Reader) error) error {
			if node == "win-4" {
				return errors.New("no agent")
			}
			if answers[node] == nil {
				<-ctx.Done()
				return ctx.Err()
			}
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			req.RemoteAddr, req.Host = "127.0.0.1:1", "127.0.0.1"
			rec := httptest.NewRecorder()
			answers[node].ServeHTTP(rec, req)
			require.Equal(t, http.StatusOK, rec.Code)
			return use(rec.Body)
		},
	}
}

var markup = regexp.MustCompile(`(?s)<[^>]*>|\n`)

// TestNodes: the front page lists every node with its state, also those that do not answer.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rec := get(t, ClusterHandler(nodesInTrouble(t)), "/")
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
	cfg := nodesInTrouble(t)
	cfg.Nodes = func(context.Context) ([]string, error, error) {
		return nil, nil, errors.New("pods is forbidden")
	}
	require.Contains(t, get(t, ClusterHandler(cfg), "/").Body.String(), ">pods is forbidden</p>")
	cfg.Nodes = func(context.Context) ([]string, error, error) {
		return nil, errors.New("nodes is forbidden"), nil
	}
	require.Contains(t, get(t, ClusterHandler(cfg), "/").Body.String(), "nodes without an agent are not known: nodes is forbidden")
}

// TestPageOfANode: below /nodes/NAME/ is the page of Handler, with the dump and the status of the
// node's agent.
func TestPageOfANode(t *testing.T) {
	h := ClusterHandler(nodesInTrouble(t))
	require.Contains(t, get(t, h, "/nodes/win-1/").Body.String(), `src="ui/app.js"`)
	require.Equal(t, http.StatusOK, get(t, h, "/nodes/win-1/ui/app.js").Code)
	require.Contains(t, get(t, h, "/nodes/win-1/api/pods").Body.String(), `"pod":"x/a"`)
	require.Contains(t, get(t, h, "/nodes/win-1/api/status").Body.String(), `"version":"v7"`)
	require.Contains(t, get(t, h, "/nodes/win-2/api/pods/x/web").Body.String(), `"pod":"x/web"`)
	require.JSONEq(t, `{"error":"no agent"}`, get(t, h, "/nodes/win-4/api/pods").Body.String())
	require.Equal(t, http.StatusTemporaryRedirect, get(t, h, "/nodes/win-1").Code)
}
