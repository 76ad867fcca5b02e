// Package script reads what happens to a cluster from lines of text, for tests.
// test/torture/README.md describes the lines. Functions panic if a line is malformed.
package script

import (
	"cmp"
	"net/netip"
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
	Addrs     []netip.Addr // of this node

	Sandbox state.Sandbox
	Trust   int8
}

// Reader turns lines into objects. Pods are as old as Now at the first line about their UID.
type Reader struct {
	Now  func() time.Time
	Born map[types.UID]metav1.Time
}

// Read returns the kind and name of the object that a line changes, and its new version: nil if
// the line deletes it. The name is "" if the command is none of an object.
func (r *Reader) Read(words []string) (name string, is *Object) {
	is = &Object{}
	command, args := words[0], words[1:]
	if len(args) == 0 {
		return "", nil
	}
	meta := metav1.ObjectMeta{Name: args[0]}
	if ns, name, ok := strings.Cut(meta.Name, "/"); ok {
		meta.Namespace, meta.Name = ns, name
	}
	spec := []byte("{" + strings.TrimPrefix(strings.Join(args[1:], " "), "{"))
	switch command {
	case "node":
		for _, arg := range args {
			is.Addrs = append(is.Addrs, netip.MustParseAddr(arg))
		}
		return command, is
	case "delete":
		return strings.Join(args, " "), nil
	case "namespace":
		meta.Labels = must(labels.ConvertSelectorToLabelsMap(strings.Join(args[1:], ",")))
		is.Namespace = &corev1.Namespace{ObjectMeta: meta}
	case "policy":
		is.Policy = &networkingv1.NetworkPolicy{ObjectMeta: meta}
		must(is, yaml.UnmarshalStrict(spec, &is.Policy.Spec))
	case "cluster":
		is.Cluster = &v1alpha2.ClusterNetworkPolicy{ObjectMeta: meta}
		must(is, yaml.UnmarshalStrict(spec, &is.Cluster.Spec))
	case "peer":
		meta.Labels = must(labels.ConvertSelectorToLabelsMap(strings.Join(args[2:], ",")))
		is.Peer = &corev1.Node{ObjectMeta: meta}
		is.Peer.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: args[1]}}
	case "pod":
		meta.UID = types.UID(args[0])
		r.pod(is, meta, args[1:])
	default:
		return "", nil
	}
	return command + " " + args[0], is
}

// pod reads ADDR|- and the attributes of a pod.
func (r *Reader) pod(is *Object, meta metav1.ObjectMeta, args []string) {
	now := metav1.NewTime(r.Now())
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: gen.Node, Containers: []corev1.Container{{Name: "c"}}}}
	pod.Labels, pod.Status = map[string]string{}, corev1.PodStatus{Phase: corev1.PodRunning, PodIP: strings.Trim(args[0], "-")}
	for _, arg := range args[1:] {
		key, value, isPair := strings.Cut(arg, "=")
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
		case "port":
			port, proto, _ := strings.Cut(value, "/")
			port, number, _ := strings.Cut(port, ":")
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{
				Name: port, Protocol: corev1.Protocol(proto), ContainerPort: int32(must(strconv.ParseInt(number, 10, 32))),
			})
		case "sandbox":
			is.Sandbox.ID, is.Sandbox.Told = value, now.Time
		case "netns":
			is.Sandbox.Netns = value
		case "round":
			is.Sandbox.Round = must(strconv.Atoi(value))
		case "trust":
			is.Trust = int8(must(strconv.ParseInt(value, 10, 8)))
		default:
			if !isPair {
				panic("unknown pod attribute " + arg)
			}
			pod.Labels[key] = value
		}
	}
	if _, ok := r.Born[pod.UID]; !ok { // later lines are later pods
		r.Born[pod.UID] = metav1.NewTime(now.Add(time.Duration(len(r.Born)) * time.Millisecond))
	}
	pod.CreationTimestamp = r.Born[pod.UID]
	pod.Status.StartTime = cmp.Or(pod.Status.StartTime, &pod.CreationTimestamp)
	is.Pod = pod
}

// Tell puts what Read returned into a transaction. A pod that is deleted had finished.
func Tell(tx *dataplane.Transaction, name string, is *Object) {
	kind, name, _ := strings.Cut(name, " ")
	ns, podName, _ := strings.Cut(name, "/")
	switch {
	case is == nil && kind == "pod":
		tx.DeleteFinishedPod(desired.PodKey{Namespace: ns, Name: podName})
	case is == nil && kind == "namespace":
		tx.DeleteNamespace(name)
	case is == nil && kind == "policy":
		tx.DeletePolicy(policy.Key{Namespace: ns, Name: podName})
	case is == nil && kind == "cluster":
		tx.DeleteClusterPolicy(name)
	case is == nil && kind == "peer":
		tx.DeleteNode(name)
	case is == nil:
		panic("delete " + kind + ": no such kind")
	case is.Pod != nil:
		pod := controllers.PodFrom(is.Pod, gen.Node)
		pod.Sandbox, pod.Trust = is.Sandbox, is.Trust
		tx.SetPod(pod)
	case is.Namespace != nil:
		tx.SetNamespace(desired.Namespace{Name: name, Labels: is.Namespace.Labels})
	case is.Policy != nil:
		tx.SetPolicy(is.Policy)
	case is.Cluster != nil:
		tx.SetClusterPolicy(is.Cluster)
	case is.Peer != nil:
		tx.SetNode(controllers.ClusterNode(is.Peer))
	default:
		tx.SetNodeAddrs(is.Addrs)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
