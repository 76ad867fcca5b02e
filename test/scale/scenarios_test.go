package scale

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
)

// A scenario is an event on a node where everything is programmed. It happens again and
// again: an event and its opposite alternate and cost the same, or undo reverts each.
type scenario struct {
	name  string
	setup func(t testing.TB, s size) *node
	event func(n *node, turn int) []*dataplane.Transaction
	undo  func(n *node, turn int)
}

// size is how large a scenario is.
type size struct {
	pods, policies int // of the cluster
	many           int // of what the scenario is about
}

// String is the size as benchmarks are named.
func (s size) String() string {
	text := fmt.Sprintf("pods=%d/policies=%d", s.pods, s.policies)
	if s.many > 0 {
		text += fmt.Sprintf("/many=%d", s.many)
	}
	return text
}

// scenarios are those of docs/performance.md, in its order.
var scenarios = []scenario{
	{name: "Churn", setup: settled, event: churn},
	{name: "OneAddressJoinsABusySet", setup: busySet, event: addressComesAndGoes},
	{name: "OnePodManyPolicies", setup: manyPolicies, event: podComes, undo: podGoes},
	{name: "NamespaceRelabel", setup: wideNamespace, event: relabelNamespace},
	{name: "PolicyEdit", setup: homePolicy, event: editPolicy},
	{name: "BigSet", setup: bigSet, event: relabelOne},
}

func scenarioNamed(name string) scenario {
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	panic("BUG: there is no scenario " + name)
}

// extraNumber is where numbers of pods begin that a scenario adds to a world.
const extraNumber = 500_000

// settled is a node with everything in HNS.
func settled(t testing.TB, s size) *node {
	return programmed(t, newWorld(s.pods, s.policies))
}

func programmed(t testing.TB, w *world) *node {
	n := newNode(t, w)
	n.apply(w.transaction())
	n.reads = reads{}
	return n
}

// ----- churn -----

// churnEvents is a second of events, in transactions of half of them.
const churnEvents = 1_000

// churn changes as many pods as a transaction has events, and changes them back
// in the next one: half of them get the label of another workload, the rest go
// and come again. A tenth are of the neighbourhood. It takes other pods each turn.
func churn(n *node, turn int) []*dataplane.Transaction {
	near, far := n.world.remote()
	there, back := dataplane.NewTransaction(), dataplane.NewTransaction()
	for i := range churnEvents / 2 {
		from, k := far, turn*churnEvents/2+i
		if i%10 < 2 && i%20 < 10 { // one of each sort in twenty
			from, k = near, k/10
		}
		at := from[k%len(from)]
		p := n.world.pods[at]
		back.SetPod(p)
		if i%2 == 0 {
			there.DeletePod(p.Key())
			continue
		}
		p.Labels = n.world.pods[from[(k+replicas)%len(from)]].Labels
		there.SetPod(p)
	}
	return []*dataplane.Transaction{there, back}
}

// remote returns the places of the remote pods of the neighbourhood and of the
// rest.
func (w *world) remote() (near, far []int) {
	for i := range w.pods {
		switch {
		case i >= nearPods:
			far = append(far, i)
		case !w.pods[i].Local:
			near = append(near, i)
		}
	}
	return near, far
}

// ----- policies of many pods, pods of many policies -----

// home is the namespace of all local pods in worlds that are about them.
const home = "home"

// homeWorld is a cluster whose local pods are in one namespace. The policies of
// the neighbourhood select none of them there.
func homeWorld(s size) *world {
	w := newWorld(s.pods, s.policies)
	w.addNamespace(home, "home")
	for i := range w.pods {
		if p := &w.pods[i]; p.Local {
			p.Namespace = home
		}
	}
	return w
}

// fromApp is a policy of home that allows one port from the pods of an app in
// the namespaces of a team.
func fromApp(name string, selects map[string]string, app string, port int) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selects},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "near-0"}},
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
				}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(port)))}},
			}},
		},
	}
}

// extra is a pod that a scenario adds.
func extra(number int, namespace string, labels map[string]string) desired.Pod {
	number += extraNumber
	return desired.Pod{
		Namespace: namespace, Name: fmt.Sprintf("extra-%d", number), UID: types.UID(fmt.Sprintf("extra-%d", number)),
		Addr: addrOf(number), Labels: labels,
	}
}

func one(change func(tx *dataplane.Transaction)) []*dataplane.Transaction {
	tx := dataplane.NewTransaction()
	change(tx)
	return []*dataplane.Transaction{tx}
}

// busySet has policies of every local pod that all allow the same app.
func busySet(t testing.TB, s size) *node {
	w := homeWorld(s)
	for i := range s.many {
		w.policies = append(w.policies, fromApp(fmt.Sprintf("busy-%d", i), nil, "popular", i+1))
	}
	w.pods = append(w.pods, extra(0, home, map[string]string{"app": "popular"}))
	return programmed(t, w)
}

// addressComesAndGoes has a pod of another node join and leave the busy set.
func addressComesAndGoes(_ *node, turn int) []*dataplane.Transaction {
	return one(func(tx *dataplane.Transaction) {
		p := extra(1, home, map[string]string{"app": "popular"})
		if turn%2 == 0 {
			tx.SetPod(p)
		} else {
			tx.DeletePod(p.Key())
		}
	})
}

// manyPolicies has policies that wait for a pod to select.
func manyPolicies(t testing.TB, s size) *node {
	w := homeWorld(s)
	for i := range s.many {
		w.policies = append(w.policies, fromApp(fmt.Sprintf("many-%d", i), map[string]string{"role": "chosen"}, appOf(i%nearLoads), i+1))
	}
	return programmed(t, w)
}

// podComes starts the pod that they select. Each turn it is another one, with an
// endpoint of its own.
func podComes(n *node, turn int) []*dataplane.Transaction {
	p := chosen(turn)
	n.plug(p.Addr)
	return one(func(tx *dataplane.Transaction) { tx.SetPod(p) })
}

// podGoes ends the pod, and waits until its sets are no more.
func podGoes(n *node, turn int) {
	p := chosen(turn)
	require.NoError(n.t, n.meter.sim.DeleteEndpoint(endpointOf(p.Addr)))
	n.apply(one(func(tx *dataplane.Transaction) { tx.DeletePod(p.Key()) })[0])
	n.meter.pass(gracePeriod + time.Second)
	n.apply(dataplane.NewTransaction())
}

func chosen(turn int) desired.Pod {
	p := extra(turn, home, map[string]string{"role": "chosen"})
	p.Local = true
	return p
}

// homePolicy has one policy of every local pod.
func homePolicy(t testing.TB, s size) *node {
	w := homeWorld(s)
	w.policies = append(w.policies, fromApp("edited", nil, appOf(0), 1))
	return programmed(t, w)
}

// editPolicy gives the policy another port.
func editPolicy(_ *node, turn int) []*dataplane.Transaction {
	return one(func(tx *dataplane.Transaction) { tx.SetPolicy(fromApp("edited", nil, appOf(0), 1+(turn+1)%2)) })
}

// ----- large sets -----

// wideNamespace has a namespace of many pods.
func wideNamespace(t testing.TB, s size) *node {
	w := newWorld(s.pods, s.policies)
	w.addNamespace("wide", "near-0")
	for i := range s.many {
		w.pods = append(w.pods, extra(i, "wide", labelsOf(0)))
	}
	return programmed(t, w)
}

// relabelNamespace gives the namespace to another team.
func relabelNamespace(_ *node, turn int) []*dataplane.Transaction {
	return one(func(tx *dataplane.Transaction) {
		tx.SetNamespace(desired.Namespace{Name: "wide", Labels: map[string]string{
			"kubernetes.io/metadata.name": "wide", "team": fmt.Sprintf("near-%d", (turn+1)%2),
		}})
	})
}

// bigSet has a set of many pods of other nodes.
func bigSet(t testing.TB, s size) *node {
	w := homeWorld(s)
	w.policies = append(w.policies, fromApp("big", nil, "big", 1))
	for i := range s.many {
		w.pods = append(w.pods, extra(i, "elsewhere", map[string]string{"app": "big"}))
	}
	return programmed(t, w)
}

// relabelOne takes one pod out of the set and puts it back.
func relabelOne(_ *node, turn int) []*dataplane.Transaction {
	return one(func(tx *dataplane.Transaction) {
		tx.SetPod(extra(0, "elsewhere", map[string]string{"app": [...]string{"other", "big"}[turn%2]}))
	})
}
