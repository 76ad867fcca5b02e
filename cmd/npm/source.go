package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/explain"
	"github.com/winnpm/winnpm/pkg/simulate"
)

// fetchTimeout is how long an agent may take for an answer.
const fetchTimeout = time.Minute

// source is where a command gets the state from that it is about.
type source struct {
	manifests    []string
	node         string
	dump, server string
	cluster      clusterOptions
	plugin       bool // without another source it is the cluster
}

// flags adds those of the source to a command.
func (s *source) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.manifests, "manifests", nil, "simulate the `manifests` of a folder or file; may be repeated")
	f.StringVar(&s.node, "node", "", "with --manifests: only the pods of this `node` have endpoints (default: every pod is local)")
	f.StringVar(&s.dump, "dump", "", "a saved dump, a `file` or - (stdin)")
	f.StringVar(&s.server, "server", "http://"+simulate.DefaultServe, "`URL` of the agent's debug endpoint")
	cmd.MarkFlagsMutuallyExclusive("manifests", "dump", "server")
}

func (s *source) validate() error {
	if s.live() {
		return nil
	}
	if s.node != "" && len(s.manifests) == 0 {
		return errors.New("--node is for --manifests and the agents of a cluster: a dump is of its own node")
	}
	if s.cluster.moved() {
		return errors.New("--agent-namespace and --selector are for the agents of a cluster: give --kubeconfig or --context too")
	}
	if s.plugin && s.server == "" {
		return nil
	}
	if u, err := url.Parse(s.server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--server %q: write it like http://%s", s.server, simulate.DefaultServe)
	}
	return nil
}

// read returns a dump, and where manifests have the policies.
func (s *source) read(ctx context.Context, std streams) (dataplane.Dump, explain.Places, error) {
	switch {
	case len(s.manifests) > 0:
		return simulate.Snapshot(ctx, simulate.Options{
			Manifests: s.manifests, Node: s.node, Stdin: std.in, Logger: klog.Logger{},
		})
	case s.dump == "-":
		d, err := debug.ReadManager(std.in)
		return d, nil, err
	case s.dump != "":
		f, err := os.Open(s.dump)
		if err != nil {
			return dataplane.Dump{}, nil, err
		}
		defer f.Close()
		d, err := debug.ReadManager(f)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.dump, err)
		}
		return d, nil, err
	}
	var d dataplane.Dump
	err := s.fetch(ctx, debug.ManagerPath, intoDump(&d))
	return d, nil, err
}

// intoDump reads what debug.ManagerPath answers.
func intoDump(d *dataplane.Dump) func(io.Reader) error {
	return func(body io.Reader) (err error) {
		*d, err = debug.ReadManager(body)
		return err
	}
}

// fetch lets use read what the agent answers to a path.
func (s *source) fetch(ctx context.Context, path string, use func(io.Reader) error) error {
	at, err := s.endpoint(ctx)
	if err != nil {
		return err
	}
	return at.get(ctx, path, use)
}

// endpoint returns where the agent answers.
func (s *source) endpoint(ctx context.Context) (endpoint, error) {
	if !s.live() {
		return endpoint{url: strings.TrimSuffix(s.server, "/"), via: &http.Transport{DisableKeepAlives: true}}, nil
	}
	if s.node == "" {
		return endpoint{}, errors.New("a cluster has many agents: say with --node which one to ask")
	}
	cluster, err := s.cluster.open()
	if err != nil {
		return endpoint{}, err
	}
	_, at, err := findAgent(ctx, cluster, s.node)
	return at, s.cluster.advise(err)
}

// endpoint is where an agent answers.
type endpoint struct {
	url  string
	via  http.RoundTripper
	name string // of the agent; "" where the URL says enough
}

// get lets use read what is answered to a path.
func (e endpoint) get(ctx context.Context, path string, use func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: e.via}
	what := cmp.Or(e.name, e.url+path)
	resp, err := client.Do(req)
	if wrapped := (*url.Error)(nil); e.name != "" && errors.As(err, &wrapped) {
		return fmt.Errorf("%s: %w; --dump asks a saved dump instead", e.name, wrapped.Err) // the URL is of no address here
	}
	if err != nil {
		return fmt.Errorf("%w; is the agent running there? --dump and --manifests ask something else", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, err := io.ReadAll(io.LimitReader(resp.Body, 200))
		if err != nil {
			why = []byte(err.Error())
		}
		return fmt.Errorf("%s: %s: %s", what, resp.Status, why)
	}
	if err := use(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
