// Package script parses changes of a cluster from lines of text, for tests. test/torture/README.md
// describes the lines. Functions panic if a line is malformed.
package script

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// Words splits a line into its words, without the comment.
func Words(line string) []string {
	line, _, _ = strings.Cut(line, "#")
	return strings.Fields(line)
}

// Object is one version of an object. Sandbox and Trust are a pod's; otherwise one field is set.
type Object struct {
	Pod       *corev1.Pod
	Namespace *corev1.Namespace
	Policy    *networkingv1.NetworkPolicy
	Cluster   *v1alpha2.ClusterNetworkPolicy
	Peer      *corev1.Node // a node of the cluster
	Addrs     []netip.Addr // of the agent's node
	Sandbox   state.Sandbox
	Trust     int8
}

// Reader turns lines into objects. The creation time of a pod is Now at the first line about its
// UID, plus a millisecond for each earlier pod.
type Reader struct {
	Now  func() time.Time
	born map[types.UID]metav1.Time
}

// Read returns the kind and name of the object that a line changes, and its new version: nil if
// the line deletes it. The name is "" if the line is not about an object.
func (r *Reader) Read(words []string) (name string, object *Object) {
	object = &Object{}
	command, args := words[0], words[1:]
	if len(args) == 0 {
		return "", nil
	}
	meta := metav1.ObjectMeta{Name: args[0]}
	if ns, name, ok := strings.Cut(meta.Name, "/"); ok {
		meta.Namespace, meta.Name = ns, name
	}
	spec := []byte("spec: " + strings.Join(args[1:], " "))
	switch command {
	case "node":
		for _, arg := range args {
			object.Addrs = append(object.Addrs, netip.MustParseAddr(arg))
		}
		return command, object
	case "delete":
		return strings.Join(args, " "), nil
	case "namespace":
		meta.Labels = must(labels.ConvertSelectorToLabelsMap(strings.Join(args[1:], ",")))
		object.Namespace = &corev1.Namespace{ObjectMeta: meta}
	case "policy":
		object.Policy = &networkingv1.NetworkPolicy{ObjectMeta: meta}
		must(object, yaml.UnmarshalStrict(spec, object.Policy))
	case "cluster":
		object.Cluster = &v1alpha2.ClusterNetworkPolicy{ObjectMeta: meta}
		must(object, yaml.UnmarshalStrict(spec, object.Cluster))
	case "peer":
		meta.Labels = must(labels.ConvertSelectorToLabelsMap(strings.Join(args[2:], ",")))
		object.Peer = &corev1.Node{ObjectMeta: meta}
		object.Peer.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: args[1]}}
	case "pod":
		meta.UID = types.UID(args[0])
		r.pod(object, meta, args[1:])
	default:
		return "", nil
	}
	return command + " " + args[0], object
}

// pod reads ADDR|- and the attributes of a pod.
func (r *Reader) pod(object *Object, meta metav1.ObjectMeta, args []string) {
	if r.born == nil {
		r.born = map[types.UID]metav1.Time{}
	}
	now := metav1.NewTime(r.Now())
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: gen.Node, Containers: []corev1.Container{{Name: "c"}}}}
	pod.Labels, pod.Status = map[string]string{}, corev1.PodStatus{Phase: corev1.PodRunning}
	if args[0] != "-" {
		pod.Status.PodIP = netip.MustParseAddr(args[0]).String()
	}
	for _, arg := range args[1:] {
		key, value, isPair := strings.Cut(arg, "=")
		if isPair == slices.Contains([]string{"remote", "host", "finished", "deleting"}, key) {
			panic("malformed pod attribute " + arg)
		}
		switch key {
		case "remote":
			pod.Spec.NodeName = "elsewhere"
		case "host":
			pod.Spec.HostNetwork, pod.Status.HostIP = true, pod.Status.PodIP
		case "finished":
			pod.Status.Phase = corev1.PodSucceeded
		case "deleting":
			pod.DeletionTimestamp = &now
		case "uid":
			pod.UID = types.UID(value)
		case "started":
			pod.Status.StartTime = &metav1.Time{Time: now.Add(must(time.ParseDuration(value)))}
		case "grace":
			pod.Spec.TerminationGracePeriodSeconds = new(int64(must(time.ParseDuration(value)) / time.Second))
		case "port":
			port, proto, _ := strings.Cut(value, "/")
			port, number, _ := strings.Cut(port, ":")
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{
				Name: port, Protocol: corev1.Protocol(proto), ContainerPort: int32(must(strconv.ParseUint(number, 10, 16))),
			})
		case "sandbox":
			object.Sandbox.ID, object.Sandbox.Told = value, now.Time
		case "netns":
			object.Sandbox.Netns = value
		case "round":
			object.Sandbox.Round = must(strconv.Atoi(value))
		case "trust":
			object.Trust = int8(must(strconv.ParseInt(value, 10, 8)))
		default:
			pod.Labels[key] = value
		}
	}
	if _, ok := r.born[pod.UID]; !ok {
		r.born[pod.UID] = metav1.NewTime(now.Add(time.Duration(len(r.born)) * time.Millisecond))
	}
	pod.CreationTimestamp = r.born[pod.UID]
	pod.Status.StartTime = cmp.Or(pod.Status.StartTime, &pod.CreationTimestamp)
	object.Pod = pod
}

// Tell adds the result of Read to a transaction. A deleted pod counts as finished.
func Tell(tx *dataplane.Transaction, name string, object *Object) {
	kind, name, _ := strings.Cut(name, " ")
	ns, podName, _ := strings.Cut(name, "/")
	switch {
	case object == nil && kind == "pod":
		tx.DeleteFinishedPod(desired.PodKey{Namespace: ns, Name: podName})
	case object == nil && kind == "namespace":
		tx.DeleteNamespace(name)
	case object == nil && kind == "policy":
		tx.DeletePolicy(policy.Key{Namespace: ns, Name: podName})
	case object == nil && kind == "cluster":
		tx.DeleteClusterPolicy(name)
	case object == nil && kind == "peer":
		tx.DeleteNode(name)
	case object == nil:
		panic("delete " + kind + ": no such kind")
	case object.Pod != nil:
		pod := controllers.PodFrom(object.Pod, gen.Node)
		pod.Sandbox, pod.Trust = object.Sandbox, object.Trust
		tx.SetPod(pod)
	case object.Namespace != nil:
		tx.SetNamespace(desired.Namespace{Name: name, Labels: object.Namespace.Labels})
	case object.Policy != nil:
		tx.SetPolicy(object.Policy)
	case object.Cluster != nil:
		tx.SetClusterPolicy(object.Cluster)
	case object.Peer != nil:
		tx.SetNode(controllers.ClusterNode(object.Peer))
	default:
		tx.SetNodeAddrs(object.Addrs)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
