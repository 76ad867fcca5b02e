package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/agents"
	"github.com/winnpm/winnpm/tool/ui"
)

// checkOptions are the command line of `kubectl npm check`.
type checkOptions struct {
	statusOptions
	wait     bool
	interval time.Duration
	limit    time.Duration
}

func newCheck(std cli.Streams) *cobra.Command {
	o := checkOptions{}
	cmd := &cobra.Command{
		Use:   "check POLICY",
		Short: "Show on how many nodes the current version of a NetworkPolicy is in force",
		Long: `Asks the agent of every node for a NetworkPolicy, through the cluster's API server: whether it
knows the policy as the API server has it now, whether all of it can be programmed, and
whether the pods that it selects there have their rules and sets in HNS. With --wait it
asks until this is so on all nodes, or the time is over.

Exit code: 0 in force on all nodes, 3 not on one, 4 not known of one (which counts as worse),
or you may not list the nodes; 1 no such policy or cluster, 2 wrong usage.`,
		Example: `  kubectl npm check shop/default-deny
  kubectl npm check -n shop default-deny --wait
  kubectl npm check shop/default-deny -o json`,
		Args: needs(1, 1, "check POLICY, like check shop/default-deny"),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(strings.TrimPrefix(args[0], "networkpolicy/"), "/")
			if !ok {
				namespace, name = o.cluster.inNamespace(), namespace
			}
			if namespace == "" || name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("%q is no policy: write it like shop/default-deny", args[0])
			}
			if err := cmp.Or(oneOf(o.output, "text", "wide", "name", "json", "yaml"), o.validate()); err != nil {
				return err
			}
			if o.interval <= 0 { // without a pause it would flood the API server and the agents
				return fmt.Errorf("--interval %v: it must be above 0", o.interval)
			}
			return o.run(cmd.Context(), std, namespace, name)
		},
	}
	o.flags(cmd)
	cmd.ValidArgsFunction = o.cluster.named(policyResource)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "text, wide (the nodes where it is in force too), name, json or yaml")
	f.BoolVar(&o.wait, "wait", false, "wait until it is in force on all nodes")
	f.DurationVar(&o.interval, "interval", 5*time.Second, "how long to wait before asking again")
	f.DurationVar(&o.limit, "wait-timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// run prints where the policy is in force. If wait is set, it waits until the policy is in force on all
// nodes.
func (o *checkOptions) run(ctx context.Context, std cli.Streams, namespace, name string) error {
	cluster, err := o.cluster.open()
	if err != nil {
		return o.end(std, "check", nil, err)
	}
	until := time.Now().Add(o.limit)
	for {
		c, err := o.ask(ctx, cluster, namespace, name)
		again := err == nil && o.wait && c.on(nodeInForce) < len(c.Nodes) && time.Now().Add(o.interval).Before(until)
		if !again {
			return o.end(std, "check", c, err)
		}
		select {
		case <-ctx.Done():
			return o.end(std, "check", c, err)
		case <-time.After(o.interval):
		}
	}
}

func (o *checkOptions) ask(ctx context.Context, cluster *agents.Cluster, namespace, name string) (checked, error) {
	np, err := cluster.Policy(ctx, namespace, name)
	switch {
	case err != nil:
		return checked{}, err
	case np == nil:
		return checked{}, fmt.Errorf("there is no NetworkPolicy %s/%s: kubectl -n %s get networkpolicies lists them", namespace, name, namespace)
	}
	all, nodesErr, err := cluster.All(ctx)
	switch {
	case err != nil:
		return checked{}, err
	case len(all) == 0:
		return checked{}, errors.New("there is no agent: --agent-namespace and --selector say where they are")
	}
	c := checked{Policy: namespace + "/" + name, Nodes: make([]nodeCheck, len(all))}
	if nodesErr != nil {
		c.Note = fmt.Sprintf("UNKNOWN: nodes without an agent are not known: %v", nodesErr)
	}
	errs := agents.Each(ctx, all, o.timeout, func(ctx context.Context, i int, a agents.Agent) error {
		d, err := agents.Dump(ctx, cluster, a)
		if err != nil {
			return err
		}
		n := nodeCheck{State: nodeInForce, Why: cli.Printable(notInForce(d, np))}
		if n.Why == "" && !a.Ready {
			n.Why = "the agent is not ready: kubectl npm status says why"
		}
		if n.Why != "" {
			n.State = nodeNotInForce
		}
		c.Nodes[i] = n
		return nil
	})
	for i, err := range errs {
		if err != nil {
			c.Nodes[i] = nodeCheck{State: nodeUnknown, Why: cli.Line(err)}
		}
		c.Nodes[i].Node = all[i].Node
	}
	slices.SortStableFunc(c.Nodes, func(a, b nodeCheck) int { return cmp.Compare(b.State.code(), a.State.code()) })
	return c, nil
}

// notInForce says why a policy is not in force on the node of a dump, "" if it is. A policy that selects no
// pod there is in force as soon as the agent knows it.
func notInForce(d state.Dump, np *networkingv1.NetworkPolicy) string {
	name := np.Namespace + "/" + np.Name
	i := slices.IndexFunc(d.Policies, func(p state.PolicyDump) bool { return p.Policy == name })
	if i < 0 {
		return "the agent does not know the policy yet"
	}
	spec := d.Policies[i].Spec // nil for an oversized policy, which is among the problems
	if spec == nil && len(d.Policies[i].Problems) == 0 || spec != nil && !equality.Semantic.DeepEqual(*spec, np.Spec) {
		return "the agent knows an older version of the policy"
	}
	return ui.NotInForce(&d, &d.Policies[i])
}

// inForce says whether a policy is in force on a node.
type inForce string

const (
	nodeInForce    inForce = "inForce"
	nodeNotInForce inForce = "notInForce"
	nodeUnknown    inForce = "unknown"
)

// code returns the exit code of a node. A higher one is worse.
func (f inForce) code() int {
	return map[inForce]int{nodeInForce: exitAllowed, nodeNotInForce: exitBlocked, nodeUnknown: exitUnknown}[f]
}

// nodeCheck is the state of a policy on one node.
type nodeCheck struct {
	Node  string  `json:"node"`
	State inForce `json:"state"`
	Why   string  `json:"why,omitempty"` // the reason if it is not in force or unknown
}

// checked is the state of a policy on all nodes, the worst first.
type checked struct {
	Policy string      `json:"policy"`
	Nodes  []nodeCheck `json:"nodes"`
	Note   string      `json:"note,omitempty"` // which nodes were not looked for
}

func (c checked) on(f inForce) int {
	n := 0
	for _, node := range c.Nodes {
		if node.State == f {
			n++
		}
	}
	return n
}

// code returns the exit code of the worst node, which is the first.
func (c checked) code() int {
	if c.Note != "" {
		return exitUnknown
	}
	return c.Nodes[0].State.code()
}

// write prints only the name of the policy for -o name, or else the state on each node.
func (c checked) write(w io.Writer, form string) error {
	if form == "name" {
		_, name, _ := strings.Cut(c.Policy, "/")
		_, err := fmt.Fprintln(w, "networkpolicy.networking.k8s.io/"+name)
		return err
	}
	var b cli.Page
	unknown := ""
	if n := c.on(nodeUnknown); n > 0 {
		unknown = fmt.Sprintf(", UNKNOWN on %d", n)
	}
	b.Line(0, "NetworkPolicy %s: in force on %d of %d nodes%s", c.Policy, c.on(nodeInForce), len(c.Nodes), unknown)
	for _, n := range c.Nodes {
		switch {
		case n.State == nodeUnknown:
			b.Line(1, "%s: UNKNOWN: %s", n.Node, n.Why)
		case n.State == nodeNotInForce:
			b.Line(1, "%s: %s", n.Node, n.Why)
		case form == "wide":
			b.Line(1, "%s: in force", n.Node)
		}
	}
	if c.Note != "" {
		b.Line(0, "%s", c.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
