package ui

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/tool/agents"
)

const (
	// clusterMaxAge is the maximum age of a dump on the page of a node. A dump of a large cluster takes the
	// agent and the API server seconds.
	clusterMaxAge = 15 * time.Second
	// statusTimeout limits a request for an agent's status.
	statusTimeout = 10 * time.Second
)

// Agents finds the agents of a cluster and sends requests to them. agents.Cluster implements it.
type Agents interface {
	agents.Getter
	All(ctx context.Context) (all []agents.OnNode, nodesErr, err error)
	Find(ctx context.Context, node string) (agents.Agent, error)
}

// cluster serves the pages of a cluster.
type cluster struct {
	Agents
	pages sync.Map // of http.Handler, by node
}

// ClusterHandler returns the pages of a cluster: the list of its nodes at /, and each node's page, made by
// Handler, at /nodes/NAME/.
func ClusterHandler(of Agents) http.Handler {
	c := &cluster{Agents: of}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.front)
	mux.HandleFunc("GET /ui/{name}", serveStatic)
	mux.HandleFunc("GET /nodes/{node}/", func(w http.ResponseWriter, r *http.Request) {
		page, err := c.page(r.Context(), r.PathValue("node"))
		if err != nil {
			reply(w, r, nil, err)
			return
		}
		page.ServeHTTP(w, r)
	})
	return secured(mux)
}

// page returns the page of a node. It fails if there is no such node, so that the number of pages is
// limited.
func (c *cluster) page(ctx context.Context, node string) (http.Handler, error) {
	if page, known := c.pages.Load(node); known {
		return page.(http.Handler), nil
	}
	all, _, err := c.All(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(on agents.OnNode) bool { return on.Node == node }) {
		return nil, notFound("there is no node %s with Windows or with an agent", node)
	}
	page, _ := c.pages.LoadOrStore(node, http.StripPrefix("/nodes/"+node, Handler(c.node(node))))
	return page.(http.Handler), nil
}

// node returns the configuration of a node's page.
func (c *cluster) node(name string) Config {
	return Config{MaxAge: clusterMaxAge, Dump: asking(c, name, agents.Dump), Status: asking(c, name, agents.Status)}
}

// asking returns a function that finds the agent of a node and calls ask with it.
func asking[T any](c *cluster, node string, ask func(context.Context, agents.Getter, agents.Agent) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (answer T, err error) {
		agent, err := c.Find(ctx, node)
		if err != nil {
			return answer, err
		}
		return ask(ctx, c, agent)
	}
}

// nodeRow is a node in the list of the front page.
type nodeRow struct {
	Node   string
	State  string // ready, not ready or no answer
	Why    string // the reason if State is not ready or no answer
	Status debug.Status
}

//go:embed nodes.html
var nodesHTML string

var nodesTemplate = template.Must(template.New("nodes").Parse(nodesHTML))

// front serves the list of the nodes with their status.
func (c *cluster) front(w http.ResponseWriter, r *http.Request) {
	var page struct {
		Rows []nodeRow
		Note string
		Time string
	}
	all, unlisted, err := c.All(r.Context())
	switch {
	case err != nil:
		page.Note = err.Error()
	case unlisted != nil:
		page.Note = fmt.Sprintf("nodes without an agent are not known: %v", unlisted)
	}
	page.Rows, page.Time = c.rows(r.Context(), all), time.Now().Format(time.TimeOnly)
	var body bytes.Buffer
	if err := nodesTemplate.Execute(&body, page); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", contentTypes[".html"])
	_, _ = body.WriteTo(w) // fails only if the client has gone
}

// rows requests the status of all agents.
func (c *cluster) rows(ctx context.Context, all []agents.OnNode) []nodeRow {
	statuses, errs := agents.Statuses(ctx, c, all, statusTimeout)
	rows := make([]nodeRow, len(all))
	for i := range rows {
		row := &rows[i]
		row.Node, row.State, row.Status = all[i].Node, "ready", statuses[i]
		switch {
		case errs[i] != nil:
			row.State, row.Why = "no answer", errs[i].Error()
		case !row.Status.Ready.OK:
			row.State, row.Why = "not ready", row.Status.Ready.Reason
		case !row.Status.Healthy.OK:
			row.State, row.Why = "not healthy", row.Status.Healthy.Reason
		}
		row.Why = oneLine(row.Why)
	}
	return rows
}
