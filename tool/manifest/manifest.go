// Package manifest reads Kubernetes manifests and completes them to the
// objects that a cluster would hold after running them: with defaults, UIDs,
// addresses and statuses, and with the pods of the workloads. What an API
// server would refuse is refused.
package manifest

import (
	"cmp"
	"io"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/bounded"
)

// Objects is what the manifests say, each kind sorted by namespace and name.
// The objects are read-only: pods of one workload share labels, spec and owner.
type Objects struct {
	// Namespaces holds also those that are only mentioned.
	Namespaces []*corev1.Namespace
	Nodes      []*corev1.Node
	// Pods holds those of the manifests and those of the workloads.
	Pods     []*corev1.Pod
	Policies []*networkingv1.NetworkPolicy
	Services []*corev1.Service
	// ClusterPolicies are those of every tier.
	ClusterPolicies []*v1alpha2.ClusterNetworkPolicy
	// Workloads are what makes pods, with Options.Change.
	Workloads []Workload
	// Makers are all objects that make pods, by kind and namespace/name, and what made each; "" for
	// nothing.
	Makers map[string]string
	// Places says where the policies and their rules are, as file:line; by
	// "namespace/name" and "namespace/name spec.ingress[0]", or with
	// "ClusterNetworkPolicy/name"; with Options.Change also those of all objects, by kind
	// and name.
	Places map[string]string
}

// Empty reports whether nothing is there that a cluster's connections depend on.
func (o Objects) Empty() bool {
	return len(o.Namespaces)+len(o.Nodes)+len(o.Pods)+len(o.Workloads)+len(o.Policies)+len(o.ClusterPolicies) == 0
}

// Options says in which place the pods run.
type Options struct {
	// Node is the node that the pods run on when nothing else is said; empty
	// leaves their spec.nodeName empty.
	Node string
	// Stdin is read for the path "-", and called StdinName in errors, or "stdin".
	Stdin     io.Reader
	StdinName string
	// Inputs bounds the total size of all inputs. A caller that loads several times shares one
	// value. nil means a new value for this call.
	Inputs *bounded.Inputs
	// Change reads what is to be applied to a cluster: nothing is added to what the text says,
	// so workloads are in Objects.Workloads and make no pods, and pods without a status have
	// no address.
	Change bool
	// AllMakers reads CronJobs, each of which has the pods of one of its Jobs while that runs, and
	// ReplicationControllers. The contract of kubectl npm simulate has no such kinds.
	AllMakers bool
	// Recursive reads also the folders below a folder.
	Recursive bool
	// Namespace is that of objects that name none; empty is "default".
	Namespace string
}

// Reason says what kind of thing a warning is about. Its values are words of
// the contract of `kubectl npm simulate`.
type Reason string

// The reasons.
const (
	SkippedKind    Reason = "SkippedKind"
	HostBitsMasked Reason = "HostBitsMasked"
	NotEnforced    Reason = "NotEnforced"
	FolderSkipped  Reason = "FolderSkipped"
	NoIPv4         Reason = "NoIPv4"
	UnknownKind    Reason = "Invalid" // as of a policy that cannot be read
)

// Warning is about something that was read and does not count as it stands.
type Warning struct {
	Object  string // namespace/name, or the name when no namespace is given
	Kind    string
	Reason  Reason
	Message string // one line
}

// Misleads reports whether verdicts could be others without what the warning is about.
func (w Warning) Misleads() bool { return w.Reason != SkippedKind && w.Reason != HostBitsMasked }

// Load reads the files, folders and standard input ("-") that paths name. The
// warnings are in the order of the text. The error is an *Error, whose text is
// one line, or *Errors, when several things are refused; nothing else is returned
// then.
func Load(paths []string, o Options) (Objects, []Warning, error) {
	l := loader{Options: o, inputs: cmp.Or(o.Inputs, &bounded.Inputs{}), seen: map[string]place{}}
	for _, path := range paths {
		files, err := l.open(path, o.Stdin, cmp.Or(o.StdinName, "stdin"))
		if err != nil {
			return Objects{}, nil, err
		}
		for _, f := range files {
			l.file(f)
		}
	}
	if err := l.failed(); err != nil {
		return Objects{}, nil, err
	}
	if err := l.nodeIsThere(o.Node, paths); err != nil {
		return Objects{}, nil, err
	}
	objects, err := l.finish(o.Node)
	if err != nil {
		return Objects{}, nil, err
	}
	return objects, l.warnings, nil
}
