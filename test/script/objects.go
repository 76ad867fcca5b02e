package script

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/winnpm/winnpm/test/oracle"
)

// Objects returns the objects of a cluster except lost pods, with the names that Read gives them.
func Objects(c oracle.Cluster) iter.Seq2[string, Object] {
	return func(yield func(string, Object) bool) {
		more := true
		each := func(name string, o Object) { more = more && yield(name, o) }
		for i := range c.Namespaces {
			each("namespace "+c.Namespaces[i].Name, Object{Namespace: &c.Namespaces[i]})
		}
		for i := range c.Pods {
			each("pod "+c.Pods[i].Namespace+"/"+c.Pods[i].Name, Object{Pod: &c.Pods[i]})
		}
		for i := range c.Policies {
			each("policy "+c.Policies[i].Namespace+"/"+c.Policies[i].Name, Object{Policy: &c.Policies[i]})
		}
		for i := range c.ClusterPolicies {
			each("cluster "+c.ClusterPolicies[i].Name, Object{Cluster: &c.ClusterPolicies[i]})
		}
		for i := range c.Nodes {
			each("peer "+c.Nodes[i].Name, Object{Peer: &c.Nodes[i]})
		}
		each("node", Object{Addrs: c.NodeAddrs})
	}
}

// Equal reports whether two versions of an object are the same.
func (o Object) Equal(p Object) bool {
	return slices.Equal(o.Addrs, p.Addrs) && equality.Semantic.DeepEqual(o.Pod, p.Pod) && equality.Semantic.DeepEqual(o.Namespace, p.Namespace) &&
		equality.Semantic.DeepEqual(o.Policy, p.Policy) && equality.Semantic.DeepEqual(o.Cluster, p.Cluster) && equality.Semantic.DeepEqual(o.Peer, p.Peer)
}

// String describes the object in test failures.
func (o Object) String() string {
	text := func(spec any) string {
		out, err := json.Marshal(spec)
		if err != nil {
			return err.Error()
		}
		return string(out)
	}
	switch {
	case o.Pod != nil:
		p := o.Pod
		return fmt.Sprintf("%s %v on %q %v %s host=%v deleted=%v started=%v created=%v containers=%v init=%v", p.UID, oracle.Address(p), p.Spec.NodeName,
			p.Labels, p.Status.Phase, oracle.AtNode(p), p.DeletionTimestamp != nil, p.Status.StartTime, p.CreationTimestamp, p.Spec.Containers, p.Spec.InitContainers)
	case o.Namespace != nil:
		return fmt.Sprint(o.Namespace.Labels)
	case o.Policy != nil:
		return text(o.Policy.Spec)
	case o.Cluster != nil:
		return text(o.Cluster.Spec)
	case o.Peer != nil:
		return fmt.Sprint(o.Peer.Labels, o.Peer.Status.Addresses)
	}
	return fmt.Sprint(o.Addrs)
}
