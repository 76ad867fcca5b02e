package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/agents"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/simulate"
	"github.com/winnpm/winnpm/pkg/simulate/manifest"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/pkg/whatif"
)

// planOptions are the command line of `npm plan`.
type planOptions struct {
	source
	files     []string
	remove    bool
	requests  bool
	all       bool
	failOn    string
	failing   bool // --fail-on is given, were it with an empty variable of a script
	output    string
	namespace string
}

// exitFlips is for what --fail-on names.
const exitFlips = 5

func newPlan(std streams, name program) *cobra.Command {
	o := planOptions{}
	cmd := &cobra.Command{
		Use:   "plan -f PATH... [--delete]",
		Short: "Say what applying or deleting policies would change; nothing is changed",
		Long: `Says what applying NetworkPolicies or ClusterNetworkPolicies, or with --delete
deleting them, would change: which connections flip, on which ports and by which policy,
and what would be written to HNS on which node. Nothing is changed anywhere.

The cluster is that of manifests, of a kubeconfig, where it only lists, of a saved
dump, or of the agent on this machine (kubectl npm: that of the kubeconfig). A dump tells the writes on its own node alone.

The first line counts everything that flips, the worst first: what is opened, what is not
known, what is blocked. --fail-on makes it an exit code, for whoever signs a change.

Exit code: 0 fine, 5 what --fail-on names flips, 3 something of the policies cannot be
expressed, programmed or applied (see warnings), 1 bad input, or a policy to delete that is
not there, 2 wrong usage.`,
		Example: `  npm plan -f policy.yaml --manifests examples/shop
  npm plan -f policy.yaml --kubeconfig ~/.kube/config
  npm plan -f policy.yaml --manifests examples/shop --requests
  npm plan -f policy.yaml --manifests examples/shop --fail-on opened -o markdown
  npm plan -f policies/ --delete --dump dump.json -o json`,
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
	o.listFlags(cmd, name)
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "`PATH` of the policies: a file, a folder or - (stdin); may be repeated")
	f.BoolVar(&o.remove, "delete", false, "plan to delete the policies of these names, rather than to apply them")
	f.BoolVar(&o.requests, "requests", false, "list what is written to HNS, request by request, in the order that never opens a gap")
	f.BoolVar(&o.all, "all", false, "fold nothing: every flip, end, set and node")
	f.StringVar(&o.failOn, "fail-on", "", "end with exit code 5 when connections flip: `what` is opened, blocked or any; what is not known counts as both")
	f.StringVarP(&o.output, "output", "o", "text", "text, markdown, json or yaml")
	f.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of policies that name none (default: of a cluster that of the kubeconfig's context, else default)")
	return cmd
}

func (o *planOptions) validate() error {
	switch {
	case len(o.files) == 0:
		return errors.New("nothing to plan: give -f PATH of policies")
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

// run prints the plan. What fails before that is one line.
func (o *planOptions) run(ctx context.Context, std streams) error {
	p, complete, err := o.plan(ctx, std)
	if err == nil {
		err = o.print(std.out, p)
	}
	switch {
	case err != nil:
		return exit{simulate.ExitBadInput, fmt.Errorf("plan: %w", err)}
	case o.fails(p.Tally):
		return exit{code: exitFlips}
	case !complete:
		return exit{code: simulate.ExitIncomplete}
	}
	return nil
}

func (o *planOptions) print(out io.Writer, p whatif.Plan) error {
	detail := whatif.Brief
	if o.all {
		detail = whatif.Whole
	}
	if o.output == "markdown" {
		return p.WriteMarkdown(out, detail)
	}
	return printAs(out, o.output, p, func(w io.Writer) error { return p.WriteText(w, detail) })
}

// fails reports whether what --fail-on names flips.
func (o *planOptions) fails(t whatif.Tally) bool {
	switch o.failOn {
	case "opened":
		return t.Opened+t.Unknown > 0
	case "blocked":
		return t.Blocked+t.Unknown > 0
	case "any":
		return t.Flipped > 0
	}
	return false
}

// inNamespace returns the namespace of policies that name none, as kubectl has it.
func (o *planOptions) inNamespace() string {
	if o.namespace == "" && o.listed() != "" {
		return agents.Namespace(o.cluster.kubeconfig, o.cluster.context)
	}
	return o.namespace
}

// plan reports also whether all of the policies can be programmed.
func (o *planOptions) plan(ctx context.Context, std streams) (whatif.Plan, bool, error) {
	objects, loaded, err := manifest.Load(o.files, manifest.Options{Stdin: std.in, PoliciesOnly: true, Recursive: o.recursive, Namespace: o.inNamespace()})
	if err != nil {
		return whatif.Plan{}, false, err
	}
	if len(objects.Policies)+len(objects.ClusterPolicies) == 0 {
		return whatif.Plan{}, false, fmt.Errorf("%s: there is no NetworkPolicy or ClusterNetworkPolicy", strings.Join(o.files, ", "))
	}
	change := whatif.Change{Set: objects.Policies, SetCluster: objects.ClusterPolicies}
	if o.remove {
		change = whatif.Change{}
		for _, cnp := range objects.ClusterPolicies {
			change.DeleteCluster = append(change.DeleteCluster, cnp.Name)
		}
		for _, np := range objects.Policies {
			change.Delete = append(change.Delete, policy.Key{Namespace: np.Namespace, Name: np.Name})
		}
	}
	change.Requests = o.requests
	world, err := o.world(ctx, std)
	if err != nil {
		return whatif.Plan{}, false, err
	}
	p, err := whatif.New(ctx, world, change)
	if missing := (whatif.NoPolicyError{}); errors.As(err, &missing) {
		err = fmt.Errorf("%s: %w", objects.Places[missing.Policy], err)
	}
	complete := len(p.Warnings) == 0
	for _, w := range loaded {
		complete = complete && !w.Misleads()
		p.Warnings = append(p.Warnings, state.Warning{Object: w.Object, Kind: w.Kind, Reason: state.Reason(w.Reason), Message: w.Message})
	}
	return p, complete, err
}
