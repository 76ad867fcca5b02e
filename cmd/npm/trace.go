package main

import (
	"context"
	"encoding/json"
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

// Exit codes of `npm trace`, beside those for bad input and wrong usage.
const (
	exitAllowed = 0
	exitNoDump  = 1
	exitBlocked = 3
	exitUnknown = 4
)

// fetchTimeout is how long an agent may take for a dump.
const fetchTimeout = time.Minute

// traceOptions are the command line of `npm trace`.
type traceOptions struct {
	manifests    []string
	node         string
	dump, server string
	output       string
}

func newTrace(std streams) *cobra.Command {
	o := traceOptions{}
	cmd := &cobra.Command{
		Use:   "trace 'FROM -> TO:PORT/PROTO' | trace FROM TO:PORT/PROTO",
		Short: "Say why a connection is allowed or blocked, and what would allow it",
		Long: `Says what becomes of a connection, in both directions: the rule that decides, its
policy, the sets and why each end is in them or not; over what is in HNS and over
what should be; and which single label or port would have allowed it.

An end is namespace/pod, an IPv4 address, or "node" for the node itself. The state
is that of the agent on this machine, of a saved dump (what
` + debug.ManagerPath + ` answers), or of a simulation of manifests.

Exit code: 0 allowed, 3 blocked, 4 not known, 1 no dump or no such pod, 2 wrong usage.`,
		Example: `  npm trace shop/storefront-0 shop/db-0:5432/TCP
  npm trace 'shop/storefront-0 -> shop/db-0:5432/TCP' --manifests examples/shop
  curl -s http://127.0.0.1:10091` + debug.ManagerPath + ` > dump.json; npm trace node shop/api-0:8080/TCP --dump dump.json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := explain.Parse(strings.Join(args, "->"))
			if err != nil {
				return fmt.Errorf("trace %q: %w", strings.Join(args, " "), err)
			}
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), std, q)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.manifests, "manifests", nil, "simulate the `manifests` of a folder or file; may be repeated")
	f.StringVar(&o.node, "node", "", "with --manifests: only the pods of this `node` have endpoints (default: every pod is local)")
	f.StringVar(&o.dump, "dump", "", "a saved dump, a `file` or - (stdin)")
	f.StringVar(&o.server, "server", "http://"+simulate.DefaultServe, "`URL` of the agent's debug endpoint")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	cmd.MarkFlagsMutuallyExclusive("manifests", "dump", "server")
	return cmd
}

func (o *traceOptions) validate() error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: the output is text or json", o.output)
	}
	if o.node != "" && len(o.manifests) == 0 {
		return errors.New("--node is for --manifests: a dump is of its own node")
	}
	if u, err := url.Parse(o.server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--server %q: write it like http://%s", o.server, simulate.DefaultServe)
	}
	return nil
}

// run prints the answer. What fails before that is one line, with exitNoDump.
func (o *traceOptions) run(ctx context.Context, std streams, q explain.Question) error {
	d, places, err := o.read(ctx, std)
	if err != nil {
		return exit{exitNoDump, fmt.Errorf("trace: %w", err)}
	}
	a, err := explain.Explain(d, q, places)
	if err != nil {
		return exit{exitNoDump, fmt.Errorf("trace: %w", err)}
	}
	if o.output == "json" {
		enc := json.NewEncoder(std.out)
		enc.SetEscapeHTML(false)
		err = enc.Encode(a)
	} else {
		err = a.WriteText(std.out)
	}
	if err != nil {
		return exit{exitNoDump, fmt.Errorf("trace: %w", err)}
	}
	switch a.Verdict {
	case explain.Allowed:
		return nil
	case explain.Blocked:
		return exit{code: exitBlocked}
	default:
		return exit{code: exitUnknown}
	}
}

// read returns the dump to explain.
func (o *traceOptions) read(ctx context.Context, std streams) (dataplane.Dump, explain.Places, error) {
	switch {
	case len(o.manifests) > 0:
		return simulate.Snapshot(ctx, simulate.Options{
			Manifests: o.manifests, Node: o.node, Stdin: std.in, Logger: klog.Logger{},
		})
	case o.dump == "-":
		d, err := debug.ReadManager(std.in)
		return d, nil, err
	case o.dump != "":
		f, err := os.Open(o.dump)
		if err != nil {
			return dataplane.Dump{}, nil, err
		}
		defer f.Close()
		d, err := debug.ReadManager(f)
		if err != nil {
			err = fmt.Errorf("%s: %w", o.dump, err)
		}
		return d, nil, err
	}
	d, err := fetch(ctx, strings.TrimSuffix(o.server, "/")+debug.ManagerPath)
	return d, nil, err
}

// fetch asks an agent for its dump.
func fetch(ctx context.Context, url string) (dataplane.Dump, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return dataplane.Dump{}, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return dataplane.Dump{}, fmt.Errorf("%w; is the agent running there? --dump and --manifests ask something else", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, err := io.ReadAll(io.LimitReader(resp.Body, 200))
		if err != nil {
			why = []byte(err.Error())
		}
		return dataplane.Dump{}, fmt.Errorf("%s: %s: %s", url, resp.Status, why)
	}
	d, err := debug.ReadManager(resp.Body)
	if err != nil {
		err = fmt.Errorf("%s: %w", url, err)
	}
	return d, err
}
