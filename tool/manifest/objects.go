package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/phrase"
)

// loader collects the objects of the documents.
type loader struct {
	Options
	objects  Objects
	warnings []state.Warning
	errs     Errors          // the first maxErrors errors
	more     int             // the number of further errors
	inputs   *bounded.Inputs // as Options.Inputs
	empty    bool            // the last input had no document
}

// source is one object, not decoded yet.
type source struct {
	place
	kind string
	tree map[string]any
}

// kind is a kind that the package reads, with the API version that it requires.
type kind struct {
	version    string
	namespaced bool
	validName  validation.ValidateNameFunc
	empty      func() metav1.Object
}

var kinds = map[string]kind{
	"Namespace":    {"v1", false, validation.ValidateNamespaceName, func() metav1.Object { return &corev1.Namespace{} }},
	"Node":         {"v1", false, validation.NameIsDNSSubdomain, func() metav1.Object { return &corev1.Node{} }},
	"Pod":          {"v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &corev1.Pod{} }},
	"Service":      {"v1", true, validation.NameIsDNS1035Label, func() metav1.Object { return &corev1.Service{} }},
	namespacedKind: {"networking.k8s.io/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &networkingv1.NetworkPolicy{} }},
	clusterKind:    {"policy.networking.k8s.io/v1alpha2", false, validation.NameIsDNSSubdomain, func() metav1.Object { return &v1alpha2.ClusterNetworkPolicy{} }},
	"Deployment":   {"apps/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &appsv1.Deployment{} }},
	"ReplicaSet":   {"apps/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &appsv1.ReplicaSet{} }},
	"StatefulSet":  {"apps/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &appsv1.StatefulSet{} }},
	"DaemonSet":    {"apps/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &appsv1.DaemonSet{} }},
	"Job":          {"batch/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &batchv1.Job{} }},
	cronJobKind:    {"batch/v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &batchv1.CronJob{} }},
	controllerKind: {"v1", true, validation.NameIsDNSSubdomain, func() metav1.Object { return &corev1.ReplicationController{} }},
}

// Options.SkipMakers skips these kinds.
const (
	cronJobKind    = "CronJob"
	controllerKind = "ReplicationController"
)

// object reads one object, or the items of a list. Items of a typed list may
// omit their version and kind; then they have the given ones.
func (l *loader) object(at place, tree any, version, kind string) *Error {
	if tree == nil {
		return nil
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return at.fail("", "must be an object with apiVersion, kind and metadata")
	}
	said := unstructured.Unstructured{Object: object}
	version, kind = cmp.Or(said.GetAPIVersion(), version), cmp.Or(said.GetKind(), kind)
	if kind == "" {
		return at.fail("kind", "is missing or no text; say which kind of object this is")
	}
	at.object = strings.TrimSpace(kind + " " + fullName(object))
	if version == "" {
		return at.fail("apiVersion", "is missing or no text; give the version of the kind, as kubectl explain %s shows it", strings.ToLower(kind))
	}
	if of, ok := strings.CutSuffix(kind, "List"); ok {
		items, isList := object["items"].([]any)
		switch {
		case of == "" && !isList && object["items"] != nil:
			return at.fail("items", "is %s, must be a list", describe(object["items"]))
		case of == "" || isList:
			l.list(at, items, version, of)
			return nil
		}
	}
	known, ok := kinds[kind]
	if l.SkipMakers && (kind == cronJobKind || kind == controllerKind) {
		ok = false
	}
	isPolicy := strings.HasSuffix(kind, namespacedKind)
	switch meant := misspelt(version, kind); {
	case meant != "":
		return at.fail("kind", "%q is no kind of %s; use %s", kind, version, meant)
	case ok && version == known.version:
		return l.readObject(source{at, kind, object})
	case ok && ofCluster(kind, version, known.version):
		return at.fail("apiVersion", "%q is not supported for this kind; use %s", version, known.version)
	case isPolicy:
		instead := "say the same with NetworkPolicy or ClusterNetworkPolicy" // for a kind of another project
		if kind == "AdminNetworkPolicy" || kind == "BaselineAdminNetworkPolicy" {
			instead = "use ClusterNetworkPolicy of " + kinds[clusterKind].version
		}
		l.warn(fullName(object), kind, NotEnforced, "%s: kind %s of %s is not enforced; verdicts are without it; %s", at, kind, version, instead)
	case alike(version, kind) != "":
		meant := alike(version, kind)
		l.warn(fullName(object), kind, UnknownKind, "%s: kind %s of %s is none that is read, so verdicts are without it; did you mean %s of %s?", at, kind, version, meant, kinds[meant].version)
	default:
		l.warn(fullName(object), kind, SkippedKind, "%s: kind %s %s and is skipped", at, kind, cmp.Or(notRead[kind], fmt.Sprintf("of %s is none that is read", version)))
	}
	return nil
}

// misspelt returns the kind of policy that the author probably meant, if another kind has its
// version; "" if the kind may be right. Skipping a policy would open connections.
func misspelt(version, kind string) string {
	switch version {
	case kinds[kind].version:
		return ""
	case kinds[clusterKind].version: // its group has no other kind
		return clusterKind
	case kinds[namespacedKind].version:
		return phrase.Similar(kind, []string{namespacedKind})
	}
	return ""
}

// alike returns the kind that the author of an unknown kind probably meant: any kind in the
// groups of Kubernetes, a policy in other groups. "" means that the kind may be right.
func alike(version, kind string) string {
	if notRead[kind] != "" {
		return ""
	}
	names := []string{namespacedKind, clusterKind}
	if slices.Contains(ownGroups, groupOf(version)) {
		names = slices.Sorted(maps.Keys(kinds))
	}
	return phrase.Similar(kind, names)
}

// ownGroups are the groups of Kubernetes whose kinds are read.
var ownGroups = []string{"", "apps", "batch", "extensions"}

func (l *loader) warn(object, kind string, reason state.Reason, format string, args ...any) {
	l.warnings = append(l.warnings, state.Warning{Object: object, Kind: kind, Reason: reason, Message: oneLine(fmt.Sprintf(format, args...))})
}

// ofCluster reports whether an apiVersion is another version of a kind that is read, and not of a custom
// resource with the same name. For NetworkPolicies it returns false only for groups of known other
// projects, because skipping a policy would open connections.
func ofCluster(kind, version, known string) bool {
	group := groupOf(version)
	return group == groupOf(known) || group == "extensions" || kind == namespacedKind && !slices.Contains(otherProjects, group)
}

// groupOf returns the group of an apiVersion, "" for the core group.
func groupOf(version string) string {
	parsed, _ := schema.ParseGroupVersion(version) // an invalid version counts as of the core group
	return parsed.Group
}

// otherProjects are API groups of other projects. Some of them have a kind NetworkPolicy too.
var otherProjects = []string{
	"crd.projectcalico.org", "projectcalico.org", // Calico
	"cilium.io",
	"crd.antrea.io",
}

// notRead explains why kinds that make pods or other objects are skipped.
var notRead = map[string]string{
	cronJobKind:     "makes pods, which are left out,",
	controllerKind:  "makes pods, which are left out,",
	"Kustomization": "makes other objects, which are left out: give what kubectl kustomize prints; it",
}

func (l *loader) list(at place, items []any, version, kind string) {
	if kind == "" { // a List, whose items are of any kind
		version = ""
	}
	prefix := at.item
	for i, item := range items {
		at.item, at.object = strings.TrimPrefix(fmt.Sprintf("%s.items[%d]", prefix, i), "."), ""
		l.refused(l.object(at, item, version, kind))
	}
}

// fullName returns namespace/name or the name of an object, as far as they are set.
func fullName(tree map[string]any) string {
	said := unstructured.Unstructured{Object: tree}
	return strings.TrimPrefix(said.GetNamespace()+"/"+said.GetName(), "/")
}

// readObject decodes an object, checks it and adds it to the loader's objects. Namespaced objects without a
// namespace get Options.Namespace.
func (l *loader) readObject(s source) *Error {
	known, into := kinds[s.kind], kinds[s.kind].empty()
	if s.kind == namespacedKind {
		delete(s.tree, "status") // older clusters return one, and newer ones ignore it
	}
	if err := conform(nil, s.tree, reflect.TypeOf(into).Elem()); err != nil {
		return s.refuse(field.ErrorList{err})
	}
	if s.kind == clusterKind {
		delete(s.tree, "status") // API servers ignore the status of an applied object
		if err := s.refuse(clusterPolicies().validate(s.tree)); err != nil {
			return err
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.tree, into); err != nil {
		return s.fail("", "%v", err)
	}
	if s.kind == clusterKind {
		into.SetNamespace("") // as kubectl and API servers do for custom resources without namespaces
	}
	if into.GetName() == "" {
		return s.fail("metadata.name", "is missing; give the object a name")
	}
	if known.namespaced {
		into.SetNamespace(cmp.Or(into.GetNamespace(), l.Namespace, metav1.NamespaceDefault))
	}
	if err := s.refuse(validation.ValidateObjectMetaAccessor(into, known.namespaced, known.validName, field.NewPath("metadata"))); err != nil {
		return err
	}
	name := strings.TrimPrefix(into.GetNamespace()+"/"+into.GetName(), "/")
	id := s.kind + " " + name
	if first, ok := l.objects.seen[id]; ok {
		return s.fail("metadata.name", "the object is there twice, first in %s; remove or rename one", first)
	}
	l.objects.seen[id] = s.place
	return s.refuse(l.add(s, into, name))
}

// add checks an object and adds it to the loader's objects.
func (l *loader) add(s source, object metav1.Object, name string) field.ErrorList {
	switch o := object.(type) {
	case *corev1.Namespace:
		l.objects.Namespaces = append(l.objects.Namespaces, o)
	case *corev1.Node:
		l.objects.Nodes = append(l.objects.Nodes, o)
		return checkNode(o)
	case *corev1.Pod:
		l.objects.Pods = append(l.objects.Pods, o)
		return checkPod(o)
	case *corev1.Service: // only for questions that name it; policies do not refer to Services
		l.objects.Services = append(l.objects.Services, o)
	case *networkingv1.NetworkPolicy:
		l.objects.Policies = append(l.objects.Policies, o)
		l.notePlaces(s.place, name, len(o.Spec.Ingress), len(o.Spec.Egress))
		return checkPolicy(o, l.noteMasked(name, s.kind))
	case *v1alpha2.ClusterNetworkPolicy:
		l.objects.ClusterPolicies = append(l.objects.ClusterPolicies, o)
		l.notePlaces(s.place, clusterKind+"/"+name, len(o.Spec.Ingress), len(o.Spec.Egress))
		return checkClusterSpec(&o.Spec, l.noteMasked(name, s.kind))
	case *appsv1.Deployment:
		return l.workload(s, o, Workload{Count: o.Spec.Replicas, template: o.Spec.Template}, "replicas")
	case *appsv1.ReplicaSet:
		return l.workload(s, o, Workload{Count: o.Spec.Replicas, template: o.Spec.Template}, "replicas")
	case *appsv1.StatefulSet:
		return l.workload(s, o, Workload{Count: o.Spec.Replicas, template: o.Spec.Template}, "replicas")
	case *appsv1.DaemonSet:
		return l.workload(s, o, Workload{PerNode: true, template: o.Spec.Template}, "")
	case *batchv1.Job:
		return l.workload(s, o, Workload{Count: o.Spec.Parallelism, template: o.Spec.Template}, "parallelism")
	case *batchv1.CronJob: // has the pods of one of its jobs
		job := o.Spec.JobTemplate.Spec
		return l.workload(s, o, Workload{Count: job.Parallelism, template: job.Template}, "parallelism", "jobTemplate", "spec")
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			return invalid(field.NewPath("spec", "template"), "is missing; say which pods it makes")
		}
		return l.workload(s, o, Workload{Count: o.Spec.Replicas, template: *o.Spec.Template}, "replicas")
	}
	return nil
}
