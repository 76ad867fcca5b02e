package ui

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	// clusterMaxAge is how long the page of a node shows a dump. A dump of a large cluster takes the
	// agent and the API server seconds.
	clusterMaxAge = 15 * time.Second
	// statusTimeout is how long an agent may take for its status, and statusesAtOnce how many
	// agents are asked at the same time.
	statusTimeout  = 10 * time.Second
	statusesAtOnce = 16
)

// ClusterConfig says how to reach the agents of a cluster.
type ClusterConfig struct {
	// Nodes returns the names of all nodes, sorted. unlisted says why nodes without an agent are not
	// among them.
	Nodes func(context.Context) (nodes []string, unlisted, err error)
	// Get lets use read the response of a node's agent to a GET of path.
	Get func(ctx context.Context, node, path string, use func(io.Reader) error) error
}

// ClusterHandler returns the pages of a cluster: the list of its nodes at /, and the page of a node,
// which is that of Handler, below /nodes/NAME/.
func ClusterHandler(cfg ClusterConfig) http.Handler {
	var mu sync.Mutex // guards nodes
	nodes := map[string]http.Handler{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", cfg.front)
	mux.HandleFunc("GET /ui/{name}", newFiles().file)
	mux.HandleFunc("GET /nodes/{node}/", func(w http.ResponseWriter, r *http.Request) {
		node := r.PathValue("node")
		mu.Lock()
		if nodes[node] == nil {
			nodes[node] = http.StripPrefix("/nodes/"+node, Handler(cfg.node(node)))
		}
		page := nodes[node]
		mu.Unlock()
		page.ServeHTTP(w, r)
	})
	return secured(mux)
}

// node returns the configuration of a node's page.
func (cfg ClusterConfig) node(name string) Config {
	return Config{
		MaxAge: clusterMaxAge,
		Dump: func(ctx context.Context) (d state.Dump, err error) {
			err = cfg.Get(ctx, name, debug.ManagerPath, func(body io.Reader) (err error) {
				d, err = debug.ReadManager(body)
				return err
			})
			return d, err
		},
		Status: func(ctx context.Context) (st debug.Status, err error) {
			err = cfg.Get(ctx, name, debug.StatusPath, readStatus(&st))
			return st, err
		},
	}
}

// readStatus returns a function that reads a response of debug.StatusPath.
func readStatus(st *debug.Status) func(io.Reader) error {
	return func(body io.Reader) error {
		return json.NewDecoder(bounded.Reader(body, bounded.OfAnAgent)).Decode(st)
	}
}

// nodeRow is a node in the list of the front page.
type nodeRow struct {
	Node   string
	State  string // ready, not ready or no answer
	Why    string // not ready, or no answer
	Status debug.Status
}

//go:embed nodes.html
var nodesHTML string

var nodesTemplate = template.Must(template.New("nodes").Parse(nodesHTML))

// front lists the nodes with the status of each.
func (cfg ClusterConfig) front(w http.ResponseWriter, r *http.Request) {
	var page struct {
		Rows []nodeRow
		Note string
		Time string
	}
	nodes, unlisted, err := cfg.Nodes(r.Context())
	switch {
	case err != nil:
		page.Note = err.Error()
	case unlisted != nil:
		page.Note = fmt.Sprintf("nodes without an agent are not known: %v", unlisted)
	}
	page.Rows, page.Time = cfg.rows(r.Context(), nodes), time.Now().Format(time.TimeOnly)
	var body bytes.Buffer
	if err := nodesTemplate.Execute(&body, page); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", contentTypes[".html"])
	_, _ = body.WriteTo(w) // a client that has gone is no concern
}

// rows asks all agents for their status.
func (cfg ClusterConfig) rows(ctx context.Context, nodes []string) []nodeRow {
	rows := make([]nodeRow, len(nodes))
	slots := make(chan struct{}, statusesAtOnce)
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("no answer within %s", statusTimeout))
			defer cancel()
			row := nodeRow{Node: node, State: "ready"}
			err := cfg.Get(ctx, node, debug.StatusPath, readStatus(&row.Status))
			switch {
			case err != nil && ctx.Err() != nil:
				row.State, row.Why = "no answer", context.Cause(ctx).Error()
			case err != nil:
				row.State, row.Why = "no answer", err.Error()
			case !row.Status.Ready.OK:
				row.State, row.Why = "not ready", row.Status.Ready.Reason
			case !row.Status.Healthy.OK:
				row.State, row.Why = "not healthy", row.Status.Healthy.Reason
			}
			row.Why = strings.Join(strings.Fields(row.Why), " ")
			rows[i] = row
		})
	}
	asking.Wait()
	return rows
}
