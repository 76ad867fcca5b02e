package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/tool/bundle"
	"github.com/winnpm/winnpm/tool/cluster"
)

// bundleOptions are the command line of `kubectl npm support-bundle`.
type bundleOptions struct {
	source
	file string
}

func newSupportBundle(std cli.Streams) *cobra.Command {
	o := bundleOptions{}
	cmd := &cobra.Command{
		Use:   "support-bundle (--node NODE | --manifests PATH) [-o FILE]",
		Short: "Save the data of an agent to one zip file",
		Long: `Writes one zip file with what the agent of a node knows: its state, its last
transactions with every request to HNS, settings, health, metrics and goroutines.
README.txt in it says what each file is.

In it are names, labels, addresses and policies of the cluster; no Secrets,
annotations, environments or credentials. A file that is there is not written over.

Exit code: 0 the file is there, 1 it is not (one line), 2 wrong usage.`,
		Example: `  kubectl npm support-bundle --node win-1
  kubectl npm support-bundle --manifests examples/shop -o shop.zip`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			switch {
			case o.live() && o.node == "":
				return errors.New("a cluster has many agents: say with --node which one to ask")
			case o.file == "-":
				return errors.New("-o -: a bundle is a zip file, which is not for a terminal: give the name of a file")
			}
			if err := o.run(cmd.Context(), std); err != nil {
				return cli.Exit{Code: cli.ExitBadInput, Err: fmt.Errorf("support-bundle: %w", err)}
			}
			return nil
		},
	}
	o.manifestFlags(cmd)
	o.clusterFlags(cmd)
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "`FILE` to write (default winnpm-NODE-TIME.zip in this folder)")
	return cmd
}

// run writes the bundle to a new file when it is complete.
func (o *bundleOptions) run(ctx context.Context, std cli.Streams) error {
	var zip bytes.Buffer
	if err := o.write(ctx, std, &zip); err != nil {
		return err
	}
	b, err := bundle.Read(bytes.NewReader(zip.Bytes()), int64(zip.Len()))
	if err != nil {
		return err
	}
	file := cmp.Or(o.file, fileName(b))
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; give another name with -o", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(zip.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	_, err = fmt.Fprintf(std.Out, "%s  %d bytes\n", file, zip.Len())
	return err
}

func (o *bundleOptions) write(ctx context.Context, std cli.Streams, to io.Writer) error {
	if len(o.manifests) > 0 {
		return o.simulate(ctx, std, to)
	}
	return o.fetch(ctx, debug.BundlePath, func(body io.Reader) error {
		_, err := io.Copy(to, io.LimitReader(body, bundle.MaxSize+1)) // a larger file is not a bundle
		return err
	})
}

// simulate writes the bundle of a simulation of manifests.
func (o *bundleOptions) simulate(ctx context.Context, std cli.Streams, to io.Writer) error {
	w, err := cluster.Read(ctx, o.options(std))
	if err != nil {
		return err
	}
	rec := recorder.New(recorder.Config{Node: o.node, Agent: cli.Version(), Now: time.Now})
	n, _, err := w.Run(ctx, rec)
	if err != nil {
		return err
	}
	return debug.WriteBundle(to, debug.Config{
		Dump: n.Dataplane.Dump, Healthy: func() error { return nil }, Ready: func() error { return nil },
		Recording: rec.Write, Version: cli.Version(), Settings: map[string]any{"simulated": true, "node": o.node},
	})
}

// strange matches characters that are not allowed in the names of nodes and bundle files.
var strange = regexp.MustCompile(`[^A-Za-z0-9.-]+|^\.+`)

// fileName returns a file name with the node and the time of a bundle. It does not trust the bundle:
// it replaces strange characters and limits the length.
func fileName(b bundle.Bundle) string {
	node := strange.ReplaceAllString(b.Dump.Node, "_")
	if node == "" {
		node = "simulation"
	}
	return fmt.Sprintf("winnpm-%.63s-%s.zip", node, b.Recording.Taken.UTC().Format("20060102T150405Z"))
}
