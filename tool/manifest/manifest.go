// Package manifest reads Kubernetes manifests and returns their objects, with the defaults that an API
// server sets. It rejects input that an API server would reject, if connections depend on it. ADR 34 says which libraries it uses.
package manifest

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
)

// Objects are the objects of the manifests, each kind sorted by namespace and name.
// The objects are read-only: pods of one workload share labels, spec and owner.
type Objects struct {
	Namespaces []*corev1.Namespace
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Policies   []*networkingv1.NetworkPolicy
	Services   []*corev1.Service
	// ClusterPolicies holds policies of every tier.
	ClusterPolicies []*v1alpha2.ClusterNetworkPolicy
	// Workloads holds the workloads, StatefulSets first, because their pods have fixed names.
	Workloads []Workload
	// Makers maps every workload, by kind and namespace/name, to its owner, or to "" if it has none.
	Makers map[string]string
	// Places holds file:line of the policies and their rules. Its keys are "namespace/name" and
	// "namespace/name spec.ingress[0]", or with "ClusterNetworkPolicy/name".
	Places map[string]string

	seen map[string]place // every object, by kind and name
}

// Place returns file:line of an object, which is named by kind and namespace/name or name.
func (o Objects) Place(object string) string {
	at := o.seen[object]
	return fmt.Sprintf("%s:%d", at.file, at.line(""))
}

// Empty reports whether no object affects the connections of a cluster.
func (o Objects) Empty() bool {
	return len(o.Namespaces)+len(o.Nodes)+len(o.Pods)+len(o.Workloads)+len(o.Policies)+len(o.ClusterPolicies) == 0
}

// Options say what Load reads, and how.
type Options struct {
	// Stdin is read for the path "-", and called StdinName in errors, or "stdin".
	Stdin     io.Reader
	StdinName string
	// Inputs bounds the total size of all inputs. A caller that loads several times shares one
	// value. nil means a new value for this call.
	Inputs *bounded.Inputs
	// SkipMakers skips CronJobs, each of which has the pods of one of its Jobs while that runs, and
	// ReplicationControllers. The contract of kubectl npm simulate has no such kinds.
	SkipMakers bool
	// Recursive also reads the folders below a folder.
	Recursive bool
	// Namespace is the namespace of objects without one; empty means "default".
	Namespace string
}

// The reasons of warnings about parts of the input that are ignored or changed. They are words of the
// contract of `kubectl npm simulate`.
const (
	SkippedKind    state.Reason = "SkippedKind"
	HostBitsMasked state.Reason = "HostBitsMasked"
	NotEnforced    state.Reason = "NotEnforced"
	FolderSkipped  state.Reason = "FolderSkipped"
	NoIPv4         state.Reason = "NoIPv4"
	UnknownKind    state.Reason = "Invalid" // the same reason as for a policy that cannot be read
)

// Misleads reports whether a warning is about something that may make verdicts wrong.
func Misleads(w state.Warning) bool {
	return w.Reason != SkippedKind && w.Reason != HostBitsMasked && w.Reason != state.ReasonSelectsNothing
}

// Load reads the files, folders and standard input ("-") that paths name. The warnings are in the order of
// the text. The error is an *Error, whose text is one line, or Errors for several errors; then Load returns
// nothing else.
func Load(paths []string, o Options) (Objects, []state.Warning, error) {
	l := loader{Options: o, inputs: cmp.Or(o.Inputs, &bounded.Inputs{}), objects: Objects{Makers: map[string]string{}, Places: map[string]string{}, seen: map[string]place{}}}
	for _, path := range paths {
		if err := l.open(path); err != nil {
			return Objects{}, nil, err
		}
	}
	if err := l.failed(); err != nil {
		return Objects{}, nil, err
	}
	l.finish()
	return l.objects, l.warnings, nil
}

// finish sorts the objects, and sets the labels of namespaces.
func (l *loader) finish() {
	o := &l.objects
	byName(o.Namespaces)
	byName(o.Nodes)
	byName(o.Pods)
	byName(o.Policies)
	byName(o.Services)
	byName(o.ClusterPolicies)
	slices.SortFunc(o.Workloads, compareWorkloads)
	for _, ns := range o.Namespaces {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
}

func byName[T metav1.Object](list []T) {
	slices.SortFunc(list, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
