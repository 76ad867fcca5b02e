package agents

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// OnNode is the agent of a node, or the reason why it cannot be asked.
type OnNode struct {
	Node  string
	Agent Agent
	Err   error
}

// All returns the agents of all nodes, sorted by node. It includes Windows nodes without an agent, unless
// it cannot list nodes; then nodesErr is the reason.
func (c *Cluster) All(ctx context.Context) (all []OnNode, nodesErr, err error) {
	var pods corev1.PodList
	err = c.core.Get().Namespace(c.namespace).Resource("pods").Param("labelSelector", c.selector.String()).Do(ctx).Into(&pods)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for the agents: %w", advise(err))
	}
	found := map[string][]corev1.Pod{}
	for _, p := range slices.DeleteFunc(pods.Items, onLinux) {
		if p.Spec.NodeName != "" {
			found[p.Spec.NodeName] = append(found[p.Spec.NodeName], p)
		}
	}
	var nodes corev1.NodeList
	nodesErr = c.core.Get().Resource("nodes").Param("labelSelector", corev1.LabelOSStable+"=windows").Do(ctx).Into(&nodes)
	for _, n := range nodes.Items {
		found[n.Name] = append(found[n.Name], nil...)
	}
	for _, node := range slices.Sorted(maps.Keys(found)) {
		agent, err := choose(found[node], node)
		all = append(all, OnNode{node, agent, err})
	}
	return all, nodesErr, nil
}

// Policy returns a NetworkPolicy, or nil if it does not exist.
func (c *Cluster) Policy(ctx context.Context, namespace, name string) (*networkingv1.NetworkPolicy, error) {
	policies, err := client(c.api, "/apis", networkingv1.SchemeGroupVersion, networkingv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	var np networkingv1.NetworkPolicy
	found, err := get(ctx, policies, "networkpolicies", namespace, name, "NetworkPolicy "+namespace+"/"+name, &np)
	if !found {
		return nil, err
	}
	return &np, nil
}
