package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/plan"
	"github.com/winnpm/winnpm/tool/simulate"
)

// planOptions are the command line of `kubectl npm plan`.
type planOptions struct {
	source
	files     []string
	kustomize string
	remove    bool
	prune     bool
	all       bool
	failOn    string
	failing   bool // --fail-on is given, even with an empty value
	output    string
}

// exitFlips is the exit code if a connection that --fail-on names flips.
const exitFlips = 5

func newPlan(std cli.Streams) *cobra.Command {
	o := planOptions{}
	cmd := &cobra.Command{
		Use:   "plan (-f PATH... | -k DIR) [--delete | --prune]",
		Short: "Show what applying or deleting objects would change, without changing anything",
		Long: `Says what applying objects, or with --delete deleting them, would change: which
connections flip, on which ports and by which policy, and what would be written to HNS on
which node. Objects are NetworkPolicies, ClusterNetworkPolicies, Namespaces, Nodes, Pods, and
what makes pods: Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs, CronJobs and ReplicationControllers.
Nothing is changed anywhere.

The cluster is that of manifests, of a kubeconfig, where it only lists, of a saved
dump, or of one agent. A dump tells the writes on its own node alone,
and not which pods are of which workload. With --prune one folder is held against another:
what --manifests has and -f has not is deleted.

The first line counts everything that flips between pods that stay, and with addresses outside,
the worst first: what is opened, what is not known, what is blocked. Lines below it count what
new pods may do, and what deleted ones did. --fail-on makes it an exit code, for whoever
signs a change: opened and blocked are of the first line, any is of all of them.

Exit code: 0 fine, 5 what --fail-on names flips, 3 something of the objects cannot be
expressed, programmed or applied (see warnings), 1 bad input, or an object to delete that is
not there, 2 wrong usage.`,
		Example: `  kubectl npm plan -f policy.yaml --manifests examples/shop
  kubectl npm plan -f policy.yaml --kubeconfig ~/.kube/config
  kubectl npm plan -f policy.yaml --manifests examples/shop --fail-on opened
  kubectl npm plan -f new/ --manifests old/ --prune -R
  kubectl npm plan -k overlays/prod --kubeconfig ~/.kube/config
  kubectl npm plan -f policies/ --delete --dump dump.json -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.failing = cmd.Flags().Changed("fail-on")
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), std)
		},
	}
	o.flags(cmd)
	o.listFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "`PATH` of the objects: a file, a folder or - (stdin); may be repeated")
	f.StringVarP(&o.kustomize, "kustomize", "k", "", "`DIR` of a kustomization; instead of -f")
	f.BoolVar(&o.remove, "delete", false, "plan to delete the objects of these names, rather than to apply them")
	f.BoolVar(&o.prune, "prune", false, "plan also to delete what --manifests has and these objects have not; Nodes stay")
	f.BoolVar(&o.all, "all", false, "fold nothing: every flip, end, set, node and unchanged object")
	f.StringVar(&o.failOn, "fail-on", "", "end with exit code 5 when connections flip: `what` is opened, blocked or any; what is not known counts as both, and what new or deleted pods may do as any alone")
	f.StringVarP(&o.output, "output", "o", "text", "text, markdown, json or yaml")
	cmd.MarkFlagsMutuallyExclusive("filename", "kustomize")
	cmd.MarkFlagsMutuallyExclusive("delete", "prune")
	return cmd
}

func (o *planOptions) validate() error {
	switch {
	case len(o.files) == 0 && o.kustomize == "":
		return errors.New("nothing to plan: give -f PATH of objects, or -k DIR of a kustomization")
	case o.prune && len(o.manifests) == 0:
		return errors.New("--prune needs --manifests OLD: it deletes the objects in OLD that are not in these files")
	case slices.Contains(o.files, "-") && (slices.Contains(o.manifests, "-") || o.dump == "-"):
		return errors.New("-f - and the cluster cannot both be on stdin: put one of them into a file")
	}
	if err := oneOf(o.output, "text", "markdown", "json", "yaml"); err != nil {
		return err
	}
	if o.failing && !slices.Contains([]string{"opened", "blocked", "any"}, o.failOn) {
		return fmt.Errorf("--fail-on %q: give opened, blocked or any", o.failOn)
	}
	return o.source.validate()
}

// run prints the plan. Its errors are one line.
func (o *planOptions) run(ctx context.Context, std cli.Streams) error {
	p, complete, err := o.plan(ctx, std)
	if err == nil {
		err = o.print(std.Out, p)
	}
	switch {
	case err != nil:
		return cli.Exit{Code: cli.ExitBadInput, Err: fmt.Errorf("plan: %w", err)}
	case o.fails(p):
		return cli.Exit{Code: exitFlips}
	case !complete:
		return cli.Exit{Code: simulate.ExitIncomplete}
	}
	return nil
}

func (o *planOptions) print(out io.Writer, p plan.Plan) error {
	if o.output == "markdown" {
		return p.WriteMarkdown(out, o.all)
	}
	return printAs(out, o.output, p, func(w io.Writer) error { return p.WriteText(w, o.all) })
}

// fails reports whether a connection that --fail-on names flips.
func (o *planOptions) fails(p plan.Plan) bool {
	return map[string]bool{"opened": p.Opened+p.Unknown > 0, "blocked": p.Blocked+p.Unknown > 0, "any": p.Any()}[o.failOn]
}

// objects reads the objects to apply or delete.
func (o *planOptions) objects(std cli.Streams) (manifest.Objects, []state.Warning, error) {
	paths, from := o.files, manifest.Options{Stdin: std.In, Inputs: &o.inputs, Recursive: o.recursive, Namespace: o.inNamespace()}
	if o.kustomize != "" {
		built, err := kustomized(o.kustomize)
		if err != nil {
			return manifest.Objects{}, nil, err
		}
		paths, from.Stdin, from.StdinName = []string{"-"}, bytes.NewReader(built), "kubectl kustomize "+o.kustomize
	}
	objects, loaded, err := manifest.Load(paths, from)
	if err == nil && objects.Empty() {
		what := strings.Join(o.files, ", ")
		err = fmt.Errorf("%s: there is nothing to plan: no policy, Namespace, Node, Pod or workload", cmp.Or(what, from.StdinName))
		if i := slices.IndexFunc(loaded, manifest.Misleads); i >= 0 {
			err = fmt.Errorf("%w; %s", err, loaded[i].Message)
		}
	}
	return objects, loaded, err
}

// plan returns the plan, and reports whether all objects can be applied and programmed.
func (o *planOptions) plan(ctx context.Context, std cli.Streams) (plan.Plan, bool, error) {
	objects, loaded, err := o.objects(std)
	if err != nil {
		return plan.Plan{}, false, err
	}
	world, err := o.world(ctx, std)
	if err != nil {
		return plan.Plan{}, false, err
	}
	change, err := cluster.Apply(world, objects, cluster.ChangeOptions{Delete: o.remove, Prune: o.prune})
	if gone, is := errors.AsType[cluster.GoneError](err); is {
		err = fmt.Errorf("%s: %w", objects.Place(string(gone)), err)
	}
	if err != nil {
		return plan.Plan{}, false, err
	}
	p, err := plan.New(ctx, world, change)
	complete := len(p.Warnings) == 0 && !slices.ContainsFunc(loaded, manifest.Misleads)
	p.Warnings = append(p.Warnings, loaded...)
	return p, complete, err
}

// kustomized returns the objects of a kustomization, built with the library and the options that
// kubectl has. A kustomization that names a repository has git fetch it.
func kustomized(dir string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	objects, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("-k %s: %s", dir, cli.Printable(err.Error()))
	}
	text, err := objects.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("-k %s: %s", dir, cli.Printable(err.Error()))
	}
	return text, nil
}
