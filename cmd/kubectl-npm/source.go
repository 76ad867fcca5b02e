package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/bundle"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// source holds the flags for the source of a command's data.
type source struct {
	manifests    []string
	recursive    bool
	node         string
	dump         string
	cluster      clusterOptions
	listsObjects bool           // the command lists the objects of a cluster instead of asking its agents
	inputs       bounded.Inputs // shared by the two sets of manifests that plan reads
}

// flags adds the flags of manifests and of a saved dump to a command.
func (s *source) flags(cmd *cobra.Command) {
	s.manifestFlags(cmd)
	cmd.Flags().StringVar(&s.dump, "dump", "", "a saved dump or support bundle, a `file`; - is a dump on stdin")
	cmd.MarkFlagsMutuallyExclusive("manifests", "dump")
}

// manifestFlags adds the flags for a simulated agent.
func (s *source) manifestFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.manifests, "manifests", nil, "simulate the `manifests` of a folder or file; may be repeated")
	f.BoolVarP(&s.recursive, "recursive", "R", false, "read also the folders below a folder")
	f.StringVar(&s.node, "node", "", "with --manifests: only the pods of this `node` have endpoints (default: every pod is local)")
}

// listFlags adds the flags of a live cluster to a command that lists its objects instead of asking agents.
func (s *source) listFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.cluster.kubectlFlags(cmd)
	f.Lookup("node").Usage = "with --manifests or a cluster: plan only for this `node` (default: all that run Windows)"
	clustersAlone(cmd)
	s.listsObjects = true
}

func (s *source) validate() error {
	if s.node != "" && s.dump != "" {
		return errors.New("--node is for --manifests and clusters: a dump is of its own node")
	}
	return nil
}

// listed returns the kubeconfig of the cluster whose objects the command lists, "" for another source.
func (s *source) listed() string {
	if s.listsObjects && s.bare() {
		return s.cluster.loading.GetDefaultFilename()
	}
	return ""
}

// read returns a saved dump, or the dump of a simulation with the places of its policies.
func (s *source) read(ctx context.Context, std cli.Streams) (state.Dump, explain.Places, error) {
	if len(s.manifests) > 0 {
		return cluster.Snapshot(ctx, s.options(std))
	}
	text, b, err := readInput(s.dump, std)
	switch {
	case err != nil:
		return state.Dump{}, nil, err
	case b != nil:
		return b.Dump, nil, nil
	}
	d, err := bounded.ReadDump(bytes.NewReader(text))
	return d, nil, inFile(s.dump, err)
}

// readInput reads a file, or standard input for "-", within the limits of bounded.Inputs. The bundle is
// not nil if the text is a support bundle.
func readInput(file string, std cli.Streams) (text []byte, b *bundle.Bundle, err error) {
	in := std.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, inFile(file, err)
		}
		defer f.Close()
		in = f
	}
	text, err = (&bounded.Inputs{}).Read(in)
	if err == nil && bytes.HasPrefix(text, []byte("PK")) { // a zip file
		b = &bundle.Bundle{}
		*b, err = bundle.Read(bytes.NewReader(text), int64(len(text)))
	}
	return text, b, inFile(file, err)
}

// inFile adds the name of a file to an error.
func inFile(file string, err error) error {
	switch {
	case err == nil:
		return nil
	case file == "-":
		file = "stdin"
	}
	return fmt.Errorf("%s: %w", file, err)
}

// options return which manifests are read, or which cluster whose objects are listed.
func (s *source) options(std cli.Streams) cluster.Options {
	return cluster.Options{
		Manifests: s.manifests, Namespace: s.cluster.overrides.Context.Namespace, Recursive: s.recursive, Node: s.node, Stdin: std.In, Inputs: &s.inputs,
		Kubeconfig: s.listed(), Connect: s.cluster.config,
	}
}

// world returns the cluster of the source before the planned change.
func (s *source) world(ctx context.Context, std cli.Streams) (cluster.World, error) {
	if len(s.manifests) > 0 || s.listed() != "" {
		return cluster.Read(ctx, s.options(std))
	}
	d, _, err := s.read(ctx, std)
	if err != nil {
		return cluster.World{}, err
	}
	return cluster.FromDump(d)
}

// fetch sends a GET of path to the agent on the node and passes the body of the response to use.
func (s *source) fetch(ctx context.Context, path string, use func(io.Reader) error) error {
	live, err := s.cluster.open()
	if err != nil {
		return err
	}
	agent, err := live.Find(ctx, s.node)
	if err != nil {
		return s.cluster.advise(err)
	}
	return live.Get(ctx, agent, path, use)
}
