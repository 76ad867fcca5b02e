package main

import (
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
	others       string // what else can be asked, for an error
}

// flags adds those of the source to a command.
func (s *source) flags(cmd *cobra.Command) {
	s.agentFlags(cmd)
	cmd.Flags().StringVar(&s.dump, "dump", "", "a saved dump, a `file` or - (stdin)")
	cmd.MarkFlagsMutuallyExclusive("manifests", "dump", "server")
	s.others = "--dump and --manifests ask something else"
}

// agentFlags adds those for an agent, running or simulated.
func (s *source) agentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.manifests, "manifests", nil, "simulate the `manifests` of a folder or file; may be repeated")
	f.StringVar(&s.node, "node", "", "with --manifests: only the pods of this `node` have endpoints (default: every pod is local)")
	f.StringVar(&s.server, "server", "http://"+simulate.DefaultServe, "`URL` of the agent's debug endpoint")
	cmd.MarkFlagsMutuallyExclusive("manifests", "server")
	s.others = "--manifests asks something else"
}

func (s *source) validate() error {
	if s.node != "" && len(s.manifests) == 0 {
		return errors.New("--node is for --manifests: a dump is of its own node")
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
		return simulate.Snapshot(ctx, s.simulation(std))
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
	err := s.fetch(ctx, debug.ManagerPath, func(body io.Reader) (err error) {
		d, err = debug.ReadManager(body)
		return err
	})
	return d, nil, err
}

// simulation is what --manifests asks for.
func (s *source) simulation(std streams) simulate.Options {
	return simulate.Options{Manifests: s.manifests, Node: s.node, Stdin: std.in, Logger: klog.Logger{}, Version: version()}
}

// fetch lets use read what the agent answers to a path.
func (s *source) fetch(ctx context.Context, path string, use func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	url := strings.TrimSuffix(s.server, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w; is the agent running there? %s", err, s.others)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, err := io.ReadAll(io.LimitReader(resp.Body, 200))
		if err != nil {
			why = []byte(err.Error())
		}
		return fmt.Errorf("%s: %s: %s", url, resp.Status, why)
	}
	if err := use(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
