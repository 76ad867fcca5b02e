package replay

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// transaction is the one that the events were taken from.
func transaction(events []recorder.Event) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for _, e := range events {
		ns, name, _ := strings.Cut(e.Object, "/")
		switch {
		case e.Kind == recorder.KindNode:
			tx.SetNodeAddrs(e.NodeAddrs)
		case e.Pod != nil:
			tx.SetPod(*e.Pod)
		case e.Namespace != nil:
			tx.SetNamespace(*e.Namespace)
		case e.Policy != nil:
			tx.SetPolicy(&networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: e.Policy.Namespace, Name: e.Policy.Name, UID: types.UID(e.Policy.UID)},
				Spec:       e.Policy.Spec,
			})
		case e.Kind == recorder.KindPod:
			tx.DeletePod(dataplane.PodKey{Namespace: ns, Name: name})
		case e.Kind == recorder.KindNamespace:
			tx.DeleteNamespace(e.Object)
		default:
			tx.DeletePolicy(policy.Key{Namespace: ns, Name: name})
		}
	}
	return tx
}

// came says what came in with a step: "2 pods, 1 policy".
func came(s *recorder.Step) string {
	if s.Kind == recorder.Observation {
		return "reading HNS"
	}
	var parts []string
	for _, kind := range []string{recorder.KindPod, recorder.KindPolicy, recorder.KindNamespace, recorder.KindNode} {
		n := 0
		for _, e := range s.Events {
			if e.Kind == kind {
				n++
			}
		}
		switch {
		case n == 0:
		case kind == recorder.KindNode:
			parts = append(parts, "node addresses")
		default:
			parts = append(parts, count(n, kind))
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
