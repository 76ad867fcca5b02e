package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Setup configures a simulated node.
type Setup struct {
	Node      string
	Addrs     []netip.Addr       // addresses of the node
	Local     func(Pod) bool     // reports whether a pod runs on the node
	Rivals    bool               // every pod that claims an address has an endpoint, not only the first
	Unchecked bool               // as dataplane.Config.Unchecked
	Recorder  *recorder.Recorder // may be nil
}

// Simulation is a simulated node with a dataplane that has programmed a world.
type Simulation struct {
	Setup
	Sim       *hnssim.Sim
	Dataplane *dataplane.Dataplane

	apply func(context.Context, *dataplane.Transaction) (state.Report, error)
	world World // the world that is programmed
	now   time.Time
}

// Simulate programs the world on a simulated node, whose clock starts at World.Now. It also returns the
// report of the first transaction.
func (w World) Simulate(ctx context.Context, s Setup) (*Simulation, state.Report, error) {
	n := &Simulation{Setup: s, Sim: hnssim.New(hnssim.Options{}), now: w.Now}
	cfg := dataplane.Config{Node: s.Node, Unchecked: s.Unchecked, Client: n.Sim, Now: func() time.Time { return n.now }}
	if s.Recorder != nil {
		cfg.Client = s.Recorder.Client(n.Sim)
	}
	n.Dataplane = dataplane.New(cfg)
	n.apply = n.Dataplane.ApplyDataplane
	if s.Recorder != nil {
		n.apply = s.Recorder.Dataplane(n.Dataplane).ApplyDataplane
	}
	report, err := n.Program(ctx, w)
	return n, report, err
}

// Run simulates the world as kubectl npm simulate does: on one node, whose pods are those of World.Node, or of
// all nodes. The recorder may be nil.
func (w World) Run(ctx context.Context, rec *recorder.Recorder) (*Simulation, state.Report, error) {
	var addrs []netip.Addr
	for _, n := range w.Nodes {
		if w.Node == "" || n.Name == w.Node {
			addrs = append(addrs, n.Internal...)
		}
	}
	w.Policies = policy.DefaultBudgets().Fit(w.Policies)
	local := func(p Pod) bool { return w.Node == "" || p.Node == w.Node }
	n, report, err := w.Simulate(ctx, Setup{Node: w.Node, Addrs: addrs, Local: local, Rivals: true, Recorder: rec})
	if ctx.Err() != nil {
		err = errors.New("interrupted before the first convergence")
	}
	return n, report, err
}

// Snapshot reads and simulates a cluster. It returns the dump, and the places of the policies in the
// manifests.
func Snapshot(ctx context.Context, o Options) (state.Dump, explain.Places, error) {
	w, err := Read(ctx, o)
	if err != nil {
		return state.Dump{}, nil, err
	}
	n, _, err := w.Run(ctx, nil)
	if err != nil {
		return state.Dump{}, nil, err
	}
	return n.Dataplane.Dump(), w.Places, nil
}

// Answer simulates the world, and answers a question. If an end is the address of a node, it simulates only
// the node of the pod at the other end, because a pod always allows connections from its own node.
func (w World) Answer(ctx context.Context, q explain.Question) (explain.Answer, error) {
	n, _, err := w.Run(ctx, nil)
	if err == nil && w.Node == "" {
		if w.Node, err = w.nodeFor(explain.New(n.Dataplane.Dump()), q); w.Node != "" {
			n, _, err = w.Run(ctx, nil)
		}
	}
	if err != nil {
		return explain.Answer{}, err
	}
	return explain.Explain(n.Dataplane.Dump(), q, w.Places)
}

// nodeFor returns the node to simulate for a question, "" for all nodes.
func (w World) nodeFor(everywhere *explain.Cluster, q explain.Question) (string, error) {
	from, err := everywhere.End(q.From)
	to, err2 := everywhere.End(q.To)
	isNode := func(e explain.End) bool {
		return e.Pod() != nil && e.Pod().HostNetwork || slices.Contains(everywhere.Dump().NodeAddrs, e.Addr().String())
	}
	if err != nil || err2 != nil || len(w.listed()) < 2 || isNode(from) == isNode(to) {
		return "", nil // nothing is filtered on nodes
	}
	end, address := to, q.From
	if isNode(to) {
		end, address = from, q.To
	}
	i := slices.IndexFunc(w.Pods, func(p Pod) bool { return end.Pod() != nil && p.Key().String() == end.Pod().Pod })
	switch {
	case i < 0:
		return "", nil
	case w.Pods[i].Node == "" && address != explain.Node:
		return "", fmt.Errorf("%s is on no node yet, and %s is the address of one: say with --node where it is to run", end.Name, address)
	}
	return w.Pods[i].Node, nil
}

// mostTries limits the transactions of one change.
const mostTries = 8

// Program programs another world: it applies the difference, and then empty transactions until the
// dataplane has converged. It advances the clock instead of waiting. It returns the report of the first
// transaction. After mostTries transactions it gives up, and the dataplane's warnings tell what is missing.
func (n *Simulation) Program(ctx context.Context, after World) (first state.Report, err error) {
	if err := after.SetEndpoints(n.Sim, n.Local, n.Rivals); err != nil {
		return first, err
	}
	tx := n.world.transaction(after, n.Local)
	tx.SetNodeAddrs(n.Addrs)
	n.world = after
	for try := range mostTries {
		report, err := n.apply(ctx, tx)
		if try == 0 {
			first = report
		}
		if err != nil || report.Converged() {
			return first, err
		}
		n.now = n.now.Add(report.RetryAfter)
		tx = dataplane.NewTransaction()
	}
	return first, nil
}

// transaction returns the transaction from this world to another one; local reports whether a pod runs on
// the node.
func (w World) transaction(after World, local func(Pod) bool) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	addDifference(w.Pods, after.Pods, Pod.Key, func(a, b Pod) bool {
		was, is := a.of(local), b.of(local)
		return was.Same(&is)
	}, func(p Pod) { tx.SetPod(p.of(local)) }, tx.DeleteFinishedPod)
	addDifference(w.Namespaces, after.Namespaces, func(ns desired.Namespace) string { return ns.Name },
		func(a, b desired.Namespace) bool { return a.Same(&b) }, tx.SetNamespace, tx.DeleteNamespace)
	addDifference(w.watchedNodes(), after.watchedNodes(), func(n state.NodeDump) string { return n.Name },
		func(a, b state.NodeDump) bool { return a.Same(&b) }, tx.SetNode, tx.DeleteNode)
	addDifference(w.Policies, after.Policies, keyOf, func(a, b *networkingv1.NetworkPolicy) bool {
		return a == b || equality.Semantic.DeepEqual(a.Spec, b.Spec)
	}, tx.SetPolicy, tx.DeletePolicy)
	addDifference(w.ClusterPolicies, after.ClusterPolicies, func(p *v1alpha2.ClusterNetworkPolicy) string { return p.Name },
		func(a, b *v1alpha2.ClusterNetworkPolicy) bool {
			return a == b || equality.Semantic.DeepEqual(a.Spec, b.Spec)
		},
		tx.SetClusterPolicy, tx.DeleteClusterPolicy)
	return tx
}

// watchedNodes returns the nodes that an agent watches: all if a policy has nodes as peers, else none.
func (w World) watchedNodes() (out []state.NodeDump) {
	if !slices.ContainsFunc(w.ClusterPolicies, SelectsNodes) {
		return nil
	}
	for _, n := range w.listed() {
		out = append(out, n.NodeDump)
	}
	return out
}

func keyOf(np *networkingv1.NetworkPolicy) policy.Key {
	return policy.Key{Namespace: np.Namespace, Name: np.Name}
}

// addDifference calls set for the new and changed objects of a list, and remove for the others.
func addDifference[T any, K comparable](before, after []T, key func(T) K, same func(a, b T) bool, set func(T), remove func(K)) {
	old, now := map[K]T{}, map[K]bool{}
	for _, o := range before {
		old[key(o)] = o
	}
	for _, o := range after {
		now[key(o)] = true
		if was, ok := old[key(o)]; !ok || !same(was, o) {
			set(o)
		}
	}
	for k := range old {
		if !now[k] {
			remove(k)
		}
	}
}

// of returns the pod for the agent of a node; local reports whether a pod runs on the node.
func (p Pod) of(local func(Pod) bool) desired.Pod {
	pod := p.Pod
	pod.Local = local(p)
	pod.UID = cmp.Or(pod.UID, types.UID(pod.Key().String())) // the dataplane distinguishes pods by UID
	return pod
}

// SetEndpoints creates the endpoints of the node's pods, and deletes all others. If pods share an address,
// only the first gets an endpoint, unless all is set.
func (w World) SetEndpoints(sim *hnssim.Sim, local func(Pod) bool, all bool) error {
	old, taken := map[string]bool{}, map[netip.Addr]bool{}
	for _, id := range sim.AllEndpointIDs() {
		old[id] = true
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if !local(*p) || p.HostNetwork || p.Finished || !p.Addr.IsValid() || !all && taken[p.Addr] && len(p.Endpoints) == 0 {
			continue
		}
		taken[p.Addr] = true
		eps := p.Endpoints
		if len(eps) == 0 {
			eps = []hnssim.SimEndpoint{{ID: endpointID(p.Pod), Policies: hnssim.DefaultForeign()}}
		}
		for _, ep := range eps {
			if old[ep.ID] {
				delete(old, ep.ID)
				continue
			}
			ep.Addrs = []netip.Addr{p.Addr}
			if err := sim.CreateEndpoint(ep); err != nil {
				return fmt.Errorf("endpoint %s of pod %s: %w", ep.ID, p.Key(), err)
			}
		}
	}
	for id := range old {
		if err := sim.DeleteEndpoint(id); err != nil {
			return fmt.Errorf("endpoint %s: %w", id, err)
		}
	}
	return nil
}

// endpointID returns a GUID that is the same in every run.
func endpointID(pod desired.Pod) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", pod.Key(), pod.UID, pod.Addr))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
