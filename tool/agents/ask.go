package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
)

const (
	// Timeout limits a request to an agent or to the API server.
	Timeout = time.Minute
	// maxConcurrent limits the agents that Each asks at the same time.
	maxConcurrent = 16
)

// Getter sends requests to agents. Cluster implements it.
type Getter interface {
	// Get sends a GET of path to an agent and passes the body of the response to use.
	Get(ctx context.Context, a Agent, path string, use func(io.Reader) error) error
}

// Get implements Getter.
func (c *Cluster) Get(ctx context.Context, a Agent, path string, use func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	// The agent answers only requests from its own node whose Host header is an address.
	at := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a.Port)))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: c.Transport(a)}
	resp, err := client.Do(req)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) { // without the URL, whose address means nothing to the user
		return fmt.Errorf("%s: %w; kubectl -n %s logs %s says more", a.Words(), wrapped.Err, a.Namespace, a.Name)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s: %s: its Toggles.EnableHTTPDebugAPI is off", a.Words(), resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		why, err := io.ReadAll(io.LimitReader(resp.Body, 200))
		if err != nil {
			why = []byte(err.Error())
		}
		return fmt.Errorf("%s: %s: %s", a.Words(), resp.Status, why)
	}
	if err := use(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", a.Words(), err)
	}
	return nil
}

// Dump returns the dump of an agent.
func Dump(ctx context.Context, from Getter, a Agent) (d state.Dump, err error) {
	err = from.Get(ctx, a, debug.ManagerPath, func(body io.Reader) (err error) {
		d, err = bounded.ReadDump(body)
		return err
	})
	return d, err
}

// Status returns the status of an agent.
func Status(ctx context.Context, from Getter, a Agent) (st debug.Status, err error) {
	err = from.Get(ctx, a, debug.StatusPath, func(body io.Reader) error {
		return json.NewDecoder(bounded.Reader(body, bounded.OfAnAgent)).Decode(&st)
	})
	return st, err
}

// Statuses returns the status of every agent, or an error, in the order of all.
func Statuses(ctx context.Context, from Getter, all []OnNode, timeout time.Duration) ([]debug.Status, []error) {
	out := make([]debug.Status, len(all))
	errs := Each(ctx, all, timeout, func(ctx context.Context, i int, a Agent) (err error) {
		out[i], err = Status(ctx, from, a)
		return err
	})
	return out, errs
}

// Each calls ask for the agent of every node, concurrently and with a timeout for each call. It returns an
// error for each node without an answer, by the index of the node.
func Each(ctx context.Context, all []OnNode, timeout time.Duration, ask func(ctx context.Context, i int, a Agent) error) []error {
	errs := make([]error, len(all))
	slots := make(chan struct{}, maxConcurrent)
	var asking sync.WaitGroup
	for i, on := range all {
		if errs[i] = on.Err; on.Err != nil {
			continue
		}
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
			defer cancel()
			errs[i] = ask(ctx, i, on.Agent)
			if errs[i] != nil && ctx.Err() != nil {
				errs[i] = context.Cause(ctx)
			}
		})
	}
	asking.Wait()
	return errs
}
