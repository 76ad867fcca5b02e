package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/winnpm/winnpm/tool/agents"
	"github.com/winnpm/winnpm/tool/explain"
)

// clusterOptions say which cluster and which agents a command asks.
type clusterOptions struct {
	loading             *clientcmd.ClientConfigLoadingRules
	overrides           clientcmd.ConfigOverrides
	namespace, selector string // of the agents' pods
}

// kubectlFlags adds kubectl's flags for connecting to a cluster to a command.
func (c *clusterOptions) kubectlFlags(cmd *cobra.Command) {
	c.loading = clientcmd.NewDefaultClientConfigLoadingRules()
	cmd.Flags().StringVar(&c.loading.ExplicitPath, "kubeconfig", "", "`file` with the address of the cluster (default: as kubectl)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	clientcmd.BindOverrideFlags(&c.overrides, cmd.Flags(), clientcmd.ConfigOverrideFlags{
		CurrentContext:       names.CurrentContext,
		Timeout:              names.Timeout,
		ContextOverrideFlags: clientcmd.ContextOverrideFlags{Namespace: names.ContextOverrideFlags.Namespace},
		AuthOverrideFlags: clientcmd.AuthOverrideFlags{
			Impersonate:       names.AuthOverrideFlags.Impersonate,
			ImpersonateGroups: names.AuthOverrideFlags.ImpersonateGroups,
		},
	})
	completions(cmd, c)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if _, err := clientcmd.ParseTimeout(c.overrides.Timeout); err != nil {
			return fmt.Errorf("--request-timeout %q: give a time, like 30s or 5m", c.overrides.Timeout)
		}
		return nil
	}
}

// kubectl returns the configuration that kubectl would use.
func (c *clusterOptions) kubectl() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.loading, &c.overrides)
}

// inNamespace returns the namespace of -n, or else of the kubeconfig's context.
func (c *clusterOptions) inNamespace() string {
	namespace, _, err := c.kubectl().Namespace()
	if err != nil { // the command reports it when it uses the kubeconfig
		return corev1.NamespaceDefault
	}
	return namespace
}

// config returns the configuration for the API server. It does not connect.
func (c *clusterOptions) config() (*rest.Config, error) {
	api, err := c.kubectl().ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no kubeconfig names a cluster: give --kubeconfig FILE, or set KUBECONFIG")
	case err != nil:
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace("kubeconfig "+c.loading.ExplicitPath), err)
	}
	return api, nil
}

// agentFlags adds the flags for finding the agents of a cluster to a command.
func (c *clusterOptions) agentFlags(cmd *cobra.Command) {
	c.kubectlFlags(cmd)
	cmd.Flags().StringVar(&c.namespace, "agent-namespace", agents.DefaultNamespace, "`namespace` of the agents")
	cmd.Flags().StringVar(&c.selector, "selector", agents.DefaultSelector, "`labels` of the agents' pods")
}

// clusterFlags adds the flags for asking the agents of a cluster. Call it after flags.
func (s *source) clusterFlags(cmd *cobra.Command) {
	s.cluster.agentFlags(cmd)
	cmd.Flags().Lookup("node").Usage += "; of a cluster: the agent of this node is asked"
	clustersAlone(cmd)
}

// clustersAlone makes a command reject flags for a cluster together with another source. Call it after the
// flags of both are added.
func clustersAlone(cmd *cobra.Command) {
	for _, other := range []string{"manifests", "dump"} {
		for _, flag := range []string{"kubeconfig", "context", "as", "as-group", "request-timeout", "agent-namespace", "selector"} {
			if cmd.Flags().Lookup(other) != nil && cmd.Flags().Lookup(flag) != nil {
				cmd.MarkFlagsMutuallyExclusive(flag, other)
			}
		}
	}
}

// live reports whether the command asks the agents of a cluster.
func (s *source) live() bool {
	return !s.listsObjects && s.bare()
}

// bare reports whether no flag names manifests or a dump.
func (s *source) bare() bool { return len(s.manifests) == 0 && s.dump == "" }

// inNamespace returns the namespace for names without one: -n, or else, for a cluster, the namespace of the
// kubeconfig's context.
func (s *source) inNamespace() string {
	if s.bare() {
		return s.cluster.inNamespace()
	}
	return cmp.Or(s.cluster.overrides.Context.Namespace, corev1.NamespaceDefault)
}

func (c clusterOptions) open() (*agents.Cluster, error) {
	api, err := c.config()
	if err != nil {
		return nil, err
	}
	api.Timeout = cmp.Or(api.Timeout, agents.Timeout) // limits requests for objects
	return agents.New(api, c.namespace, c.selector)
}

// advise adds to a missing agent's error how to find the agents.
func (c clusterOptions) advise(err error) error {
	if errors.Is(err, agents.ErrNoAgent) {
		return fmt.Errorf("%w: kubectl -n %s get pods -o wide -l %s shows where they are", err, c.namespace, c.selector)
	}
	return err
}

// ask asks the agents on the nodes of both ends concurrently, and joins their answers. The verdict at an
// end without an answer is Unknown.
func (s *source) ask(ctx context.Context, cluster *agents.Cluster, q explain.Question) (explain.Answer, error) {
	from, to, err := s.places(ctx, cluster, q)
	if err != nil {
		return explain.Answer{}, err
	}
	if from.hidden == nil && to.hidden == nil && from.node == to.node {
		a, err := askAgent(ctx, cluster, from, q)
		return a, s.cluster.advise(err)
	}
	var egress, ingress explain.Answer
	var egressErr, ingressErr error
	var asking sync.WaitGroup
	asking.Go(func() { egress, egressErr = askAgent(ctx, cluster, from, q) })
	asking.Go(func() { ingress, ingressErr = askAgent(ctx, cluster, to, q) })
	asking.Wait()
	switch {
	case egressErr != nil && ingressErr != nil:
		return explain.Answer{}, s.cluster.advise(fmt.Errorf("%w, and %w", egressErr, ingressErr))
	case to.hidden != nil && egress.Ingress.Judged: // the other end is there too
		return egress, nil
	case from.hidden != nil && ingress.Egress.Judged:
		return ingress, nil
	}
	return explain.Join(orUnanswered(egress, egressErr, q, from.node), orUnanswered(ingress, ingressErr, q, to.node)), nil
}

// place is the node where an end is judged.
type place struct {
	node   string
	hidden error // if set: the user may not read the pod, so the node is unknown
}

// none reports whether the end is not a pod.
func (p place) none() bool { return p.node == "" && p.hidden == nil }

// orUnanswered returns an answer, or a substitute if err is set.
func orUnanswered(a explain.Answer, err error, q explain.Question, node string) explain.Answer {
	switch {
	case err == nil:
		return a
	case errors.Is(err, agents.ErrNoAgent):
		return explain.Unjudged(q, node, err.Error())
	default:
		return explain.Unanswered(q, node, err.Error())
	}
}

// places returns the nodes where the ends of a question are judged. An end that is not a pod is judged on
// the node of the other end. If the user may not read a pod, its place is hidden, so the answer has one
// half only.
func (s *source) places(ctx context.Context, cluster *agents.Cluster, q explain.Question) (from, to place, err error) {
	if s.node != "" {
		from.node = s.node
		return from, from, nil
	}
	for _, end := range []struct {
		name string
		at   *place
	}{{q.From, &from}, {q.To, &to}} {
		if !strings.Contains(end.name, "/") {
			continue
		}
		end.at.node, err = cluster.NodeOf(ctx, end.name)
		if apierrors.IsForbidden(err) {
			end.at.hidden = err
		} else if err != nil {
			return place{}, place{}, err
		}
	}
	switch {
	case from.none() && to.none():
		return place{}, place{}, errors.New("neither end is a pod: say with --node which agent to ask")
	case from.none():
		from = to
	case to.none():
		to = from
	}
	if from.hidden != nil && to.hidden != nil {
		return place{}, place{}, from.hidden
	}
	return from, to, nil
}

func askAgent(ctx context.Context, cluster *agents.Cluster, where place, q explain.Question) (explain.Answer, error) {
	if where.hidden != nil {
		return explain.Answer{}, where.hidden
	}
	agent, err := cluster.Find(ctx, where.node)
	if err != nil {
		return explain.Answer{}, err
	}
	d, err := agents.Dump(ctx, cluster, agent)
	if err != nil {
		return explain.Answer{}, err
	}
	a, err := explain.Explain(d, q, nil)
	if err != nil {
		return explain.Answer{}, fmt.Errorf("%s: %w", agent.Words(), err)
	}
	if !agent.Ready {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%s is not ready, what it says may be incomplete: kubectl -n %s logs %s says why", agent.Words(), agent.Namespace, agent.Name))
	}
	return a, nil
}
