package replay

import (
	"cmp"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// transaction returns the transaction that was recorded as these events.
func transaction(events []recorder.Event) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for _, e := range events {
		ns, name, _ := strings.Cut(e.Object, "/")
		switch {
		case e.Kind == recorder.KindNode:
			tx.SetNodeAddrs(e.NodeAddrs)
		case e.Pod != nil:
			if e.Finished {
				tx.DeleteFinishedPod(e.Pod.Key())
			}
			tx.SetPod(*e.Pod)
		case e.Namespace != nil:
			tx.SetNamespace(*e.Namespace)
		case e.Policy != nil:
			tx.SetPolicy(&networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: e.Policy.Namespace, Name: e.Policy.Name, UID: types.UID(e.Policy.UID)},
				Spec:       e.Policy.Spec,
			})
		case e.ClusterPolicy != nil:
			tx.SetClusterPolicy(&v1alpha2.ClusterNetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: e.ClusterPolicy.Name, UID: types.UID(e.ClusterPolicy.UID)}, Spec: e.ClusterPolicy.Spec,
			})
		case e.ClusterNode != nil:
			tx.SetNode(*e.ClusterNode)
		case e.Kind == recorder.KindPod && e.Finished:
			tx.DeleteFinishedPod(desired.PodKey{Namespace: ns, Name: name})
		case e.Kind == recorder.KindPod:
			tx.DeletePod(desired.PodKey{Namespace: ns, Name: name})
		case e.Kind == recorder.KindNamespace:
			tx.DeleteNamespace(e.Object)
		case e.Kind == recorder.KindClusterPolicy:
			tx.DeleteClusterPolicy(e.Object)
		case e.Kind == recorder.KindClusterNode:
			tx.DeleteNode(e.Object)
		default:
			tx.DeletePolicy(policy.Key{Namespace: ns, Name: name})
		}
	}
	return tx
}

// came says what came in with a step: "2 pods, 1 policy".
func came(s *recorder.Step) string {
	if s.Kind == recorder.Observation {
		return looked(s)
	}
	var parts []string
	for _, of := range []struct{ kind, noun string }{
		{recorder.KindPod, "pod"}, {recorder.KindPolicy, "policy"}, {recorder.KindClusterPolicy, "cluster policy"},
		{recorder.KindNamespace, "namespace"}, {recorder.KindClusterNode, "node"}, {recorder.KindNode, ""},
	} {
		n := 0
		for _, e := range s.Events {
			if e.Kind == of.kind {
				n++
			}
		}
		switch {
		case n == 0:
		case of.kind == recorder.KindNode:
			parts = append(parts, "node addresses")
		default:
			parts = append(parts, count(n, of.noun))
		}
	}
	if s.Observed > 0 {
		parts = append(parts, fmt.Sprintf("what step %d read", s.Observed))
	}
	if len(parts) == 0 {
		return "nothing, a retry"
	}
	return strings.Join(parts, ", ")
}

// looked says what an observation was asked to read: "reading GUIDs, ep-1".
func looked(s *recorder.Step) string {
	text := "reading "
	switch look := lookOf(s); {
	case look.Enumerate && look.Sets && look.All:
		text += "HNS"
	default:
		var parts []string
		if look.Enumerate {
			parts = append(parts, "GUIDs")
		}
		if look.Sets {
			parts = append(parts, "sets")
		}
		switch n := len(look.Endpoints); {
		case look.All:
			parts = append(parts, "all endpoints")
		case n == 1:
			parts = append(parts, look.Endpoints[0])
		case n > 1:
			parts = append(parts, count(n, "endpoint"))
		}
		text += cmp.Or(strings.Join(parts, ", "), "nothing")
	}
	if s.Again > 0 {
		text += fmt.Sprintf(", failed %s more", count(s.Again, "time"))
	}
	return text
}
