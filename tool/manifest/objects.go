package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/similar"
)

// loader collects what the documents say.
type loader struct {
	objects   Objects
	workloads []workload
	seen      map[string]place // by kind, namespace and name
	warnings  []Warning
	change    bool // as Options.Change
	allMakers bool // as Options.AllMakers
	recursive bool // as Options.Recursive
	errs      Errors
	files     map[string]bool // those read, by their whole paths
	inputs    *bounded.Inputs // as Options.Inputs
	// defaultNamespace is that of Options.Namespace.
	defaultNamespace string
}

// source is one object, not decoded yet.
type source struct {
	place
	kind string
	tree map[string]any
}

// kinds are those that are read, with the API version that they must have.
var kinds = map[string]struct {
	version string
	read    func(*loader, source) error
}{
	"Namespace":    {"v1", (*loader).namespace},
	"Node":         {"v1", (*loader).node},
	"Pod":          {"v1", (*loader).pod},
	"Service":      {"v1", (*loader).service},
	namespacedKind: {"networking.k8s.io/v1", (*loader).policy},
	clusterKind:    {"policy.networking.k8s.io/v1alpha2", (*loader).clusterPolicy},
	"Deployment":   {"apps/v1", (*loader).deployment},
	"ReplicaSet":   {"apps/v1", (*loader).replicaSet},
	"StatefulSet":  {"apps/v1", (*loader).statefulSet},
	"DaemonSet":    {"apps/v1", (*loader).daemonSet},
	"Job":          {"batch/v1", (*loader).job},
	cronJobKind:    {"batch/v1", (*loader).cronJob},
	controllerKind: {"v1", (*loader).replicationController},
}

// The kinds that Options.AllMakers is about.
const (
	cronJobKind    = "CronJob"
	controllerKind = "ReplicationController"
)

func (l *loader) file(f file) error {
	return trees(f, l.refused, func(at place, tree any) error { return l.object(at, tree, "", "") })
}

// object reads one object, or the items of a list. Items of a typed list need
// not name their kind and version; they have those given.
func (l *loader) object(at place, tree any, version, kind string) error {
	if tree == nil {
		return nil
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return at.fail(nil, "is %s, must be an object with apiVersion, kind and metadata", kindOfValue(tree))
	}
	if err := readWord(at, object, "apiVersion", &version); err != nil {
		return err
	}
	if err := readWord(at, object, "kind", &kind); err != nil {
		return err
	}
	if kind == "" {
		return at.fail(field.NewPath("kind"), "is missing; say which kind of object this is")
	}
	at.object = strings.TrimSpace(kind + " " + fullName(object))
	if version == "" {
		return at.fail(field.NewPath("apiVersion"), "is missing; give the version of the kind, as kubectl explain %s shows it", strings.ToLower(kind))
	}
	if of, ok := strings.CutSuffix(kind, "List"); ok {
		items, isList := object["items"].([]any)
		if isList {
			return l.list(at, items, version, of)
		}
		if of == "" && object["items"] != nil {
			return at.fail(field.NewPath("items"), "is %s, must be a list", describe(object["items"]))
		}
		if of == "" {
			return nil
		}
	}
	known, ok := kinds[kind]
	ok = ok && l.reads(kind)
	isPolicy := strings.HasSuffix(kind, namespacedKind)
	switch meant := misspelt(version, kind); {
	case meant != "":
		return at.fail(field.NewPath("kind"), "%q is no kind of %s; use %s", kind, version, meant)
	case ok && version == known.version:
		return known.read(l, source{at, kind, object})
	case isPolicy && slices.Contains(otherProjects, groupOf(version)):
		l.unenforced(at, object, version, kind)
	case ok && ofCluster(kind, version, known.version):
		return at.fail(field.NewPath("apiVersion"), "%q is not supported for this kind; use %s", version, known.version)
	case isPolicy:
		l.unenforced(at, object, version, kind)
	default:
		l.passOver(at, object, version, kind)
	}
	return nil
}

// passOver notes an object of a kind that is not read.
func (l *loader) passOver(at place, object map[string]any, version, kind string) {
	if meant := alike(version, kind); meant != "" {
		l.unknown(at, object, version, kind, meant)
		return
	}
	l.skip(at, object, kind, cmp.Or(notRead[kind], fmt.Sprintf("of %s is none that is read", version)))
}

// reads reports whether a kind is read that some do not ask for.
func (l *loader) reads(kind string) bool {
	return l.allMakers || kind != cronJobKind && kind != controllerKind
}

// misspelt returns the kind of policy that somebody meant who wrote another kind with its
// version, "" when he may mean what he wrote. To skip a policy would open.
func misspelt(version, kind string) string {
	switch version {
	case kinds[kind].version:
		return ""
	case kinds[clusterKind].version: // which has no other kind
		return clusterKind
	case kinds[namespacedKind].version:
		return similar.Name(kind, []string{namespacedKind})
	}
	return ""
}

// alike returns the kind that somebody meant who wrote one that is not read: in the groups of
// Kubernetes one that is like it, elsewhere a policy in another case. "" when he may mean what
// he wrote.
func alike(version, kind string) string {
	if notRead[kind] != "" {
		return ""
	}
	var names []string
	ours := slices.Contains(ownGroups, groupOf(version))
	for name := range kinds {
		if ours || (name == namespacedKind || name == clusterKind) && strings.EqualFold(name, kind) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return similar.Name(kind, names)
}

// ownGroups are the groups of Kubernetes itself that have kinds which are read.
var ownGroups = []string{"", "apps", "batch", "extensions"}

// unknown notes an object that does not count, and that somebody who misspelt its kind, and meant
// another one, thinks counts.
func (l *loader) unknown(at place, object map[string]any, version, kind, meant string) {
	l.warnings = append(l.warnings, Warning{
		Object: fullName(object), Kind: kind, Reason: UnknownKind,
		Message: oneLine(fmt.Sprintf("%s: kind %s of %s is none that is read, so verdicts are without it; did you mean %s of %s?", at, kind, version, meant, kinds[meant].version)),
	})
}

// readWord reads a string of an object, where it has one.
func readWord(at place, object map[string]any, key string, to *string) error {
	word := object[key]
	s, ok := word.(string)
	if word != nil && !ok {
		return at.fail(field.NewPath(key), "is %s, must be a string", describe(word))
	}
	*to = cmp.Or(s, *to)
	return nil
}

// skip notes that an object was read and does not count.
func (l *loader) skip(at place, object map[string]any, kind, why string) {
	l.warnings = append(l.warnings, Warning{
		Object: fullName(object), Kind: kind, Reason: SkippedKind,
		Message: oneLine(fmt.Sprintf("%s: kind %s %s and is skipped", at, kind, why)),
	})
}

// unenforced notes a policy that nothing here enforces: one of another project, or
// of a kind that came before ClusterNetworkPolicy.
func (l *loader) unenforced(at place, object map[string]any, version, kind string) {
	advice := "verdicts are without it; say the same with NetworkPolicy or ClusterNetworkPolicy"
	if kind == "AdminNetworkPolicy" || kind == "BaselineAdminNetworkPolicy" {
		advice = "verdicts are without it; use ClusterNetworkPolicy of " + kinds[clusterKind].version
	}
	l.warnings = append(l.warnings, Warning{
		Object: fullName(object), Kind: kind, Reason: NotEnforced,
		Message: oneLine(fmt.Sprintf("%s: kind %s of %s is not enforced; %s", at, kind, version, advice)),
	})
}

// ofCluster reports whether the version is an older or newer one of the kind
// known here, not that of a custom resource which has the same name. For
// NetworkPolicies no difference is made, because skipping one would open.
func ofCluster(kind, version, known string) bool {
	group := groupOf(version)
	return group == groupOf(known) || group == "extensions" || kind == namespacedKind
}

// groupOf returns the group of an apiVersion, "" for the core group.
func groupOf(version string) string {
	group, _, found := strings.Cut(version, "/")
	if !found {
		return ""
	}
	return group
}

// otherProjects are groups with policies of their own, some of which are called as ours are.
var otherProjects = []string{
	"crd.projectcalico.org", "projectcalico.org", // Calico
	"cilium.io",
	"crd.antrea.io",
}

// notRead says of kinds that make pods, or objects, that these are left out.
var notRead = map[string]string{
	cronJobKind:     "makes pods, which are left out,",
	controllerKind:  "makes pods, which are left out,",
	"Kustomization": "makes other objects, which are left out: give what kubectl kustomize prints; it",
}

func (l *loader) list(at place, items []any, version, kind string) error {
	if kind == "" { // a List, whose items are of any kind
		version = ""
	}
	prefix := at.item
	for i, item := range items {
		at.item, at.object = fmt.Sprintf("%sitems[%d]", prefix, i), ""
		if prefix != "" {
			at.item = fmt.Sprintf("%s.items[%d]", prefix, i)
		}
		if err := l.object(at, item, version, kind); err != nil {
			if err = l.refused(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// fullName returns namespace/name, or the name, as far as the tree says them.
func fullName(tree map[string]any) string {
	meta, _ := tree["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	if namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// decode fills the object and checks its metadata. namespaced objects without
// a namespace are in that of the options.
func (l *loader) decode(s source, into metav1.Object, validName validation.ValidateNameFunc, namespaced bool) error {
	if err := decode(s.place, s.tree, into); err != nil {
		return err
	}
	meta := field.NewPath("metadata")
	if into.GetName() == "" {
		return s.fail(meta.Child("name"), "is missing; give the object a name")
	}
	if namespaced && into.GetNamespace() == "" {
		into.SetNamespace(l.defaultNamespace)
	}
	if err := s.refuse(validation.ValidateObjectMetaAccessor(into, namespaced, validName, meta)); err != nil {
		return err
	}
	id := s.kind + " " + into.GetNamespace() + "/" + into.GetName()
	if first, ok := l.seen[id]; ok {
		return s.fail(meta.Child("name"), "the object is there twice, first in %s; remove or rename one", first)
	}
	l.seen[id] = s.place
	if l.change {
		l.notePlaces(s.place, s.kind+" "+strings.TrimPrefix(into.GetNamespace()+"/"+into.GetName(), "/"), 0, 0)
	}
	return nil
}

func (l *loader) namespace(s source) error {
	ns := &corev1.Namespace{}
	if err := l.decode(s, ns, validation.ValidateNamespaceName, false); err != nil {
		return err
	}
	l.objects.Namespaces = append(l.objects.Namespaces, ns)
	return nil
}

func (l *loader) node(s source) error {
	node := &corev1.Node{}
	if err := l.decode(s, node, validation.NameIsDNSSubdomain, false); err != nil {
		return err
	}
	l.objects.Nodes = append(l.objects.Nodes, node)
	return checkNode(s.place, node)
}

// nodeIsThere fails when there are Nodes, and none of the name.
func (l *loader) nodeIsThere(name string, paths []string) error {
	var names []string
	for _, n := range l.objects.Nodes {
		names = append(names, n.Name)
	}
	if name == "" || len(names) == 0 || slices.Contains(names, name) {
		return nil
	}
	slices.Sort(names)
	reason := fmt.Sprintf("no Node is called %q; there is %s", name, some(names))
	if like := similar.Name(name, names); like != "" {
		reason = fmt.Sprintf("no Node is called %q; did you mean %s?", name, like)
	}
	read := slices.Clone(paths)
	for i, path := range read {
		if path == "-" {
			read[i] = "stdin"
		}
	}
	return &Error{File: strings.Join(read, ", "), Reason: reason}
}

// some lists the first of many names.
func some(names []string) string {
	const shown = 5
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return strings.Join(names, ", ")
}

func (l *loader) pod(s source) error {
	pod := &corev1.Pod{}
	if err := l.decode(s, pod, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	l.objects.Pods = append(l.objects.Pods, pod)
	return checkPod(s.place, pod)
}

// service is for questions about it: it has no say in who may talk to whom.
func (l *loader) service(s source) error {
	svc := &corev1.Service{}
	if err := l.decode(s, svc, validation.NameIsDNS1035Label, true); err != nil {
		return err
	}
	l.objects.Services = append(l.objects.Services, svc)
	return nil
}

func (l *loader) policy(s source) error {
	np := &networkingv1.NetworkPolicy{}
	delete(s.tree, "status") // older clusters show one, and newer ones ignore it
	if err := l.decode(s, np, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	l.objects.Policies = append(l.objects.Policies, np)
	l.notePlaces(s.place, np.Namespace+"/"+np.Name, len(np.Spec.Ingress), len(np.Spec.Egress))
	return l.checkPolicy(s.place, np)
}

func (l *loader) deployment(s source) error {
	d := &appsv1.Deployment{}
	if err := l.decode(s, d, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	return l.replicas(s, d.ObjectMeta, d.Spec.Replicas, d.Spec.Selector, d.Spec.Template)
}

func (l *loader) replicaSet(s source) error {
	rs := &appsv1.ReplicaSet{}
	if err := l.decode(s, rs, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	return l.replicas(s, rs.ObjectMeta, rs.Spec.Replicas, rs.Spec.Selector, rs.Spec.Template)
}

func (l *loader) statefulSet(s source) error {
	set := &appsv1.StatefulSet{}
	if err := l.decode(s, set, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	return l.replicas(s, set.ObjectMeta, set.Spec.Replicas, set.Spec.Selector, set.Spec.Template)
}

func (l *loader) replicas(s source, meta metav1.ObjectMeta, count *int32, selector *metav1.LabelSelector, template corev1.PodTemplateSpec) error {
	return l.workload(s, workload{meta: meta, count: count, counter: "replicas", selector: selector, template: template})
}

func (l *loader) daemonSet(s source) error {
	d := &appsv1.DaemonSet{}
	if err := l.decode(s, d, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	return l.workload(s, workload{meta: d.ObjectMeta, perNode: true, selector: d.Spec.Selector, template: d.Spec.Template})
}

func (l *loader) job(s source) error {
	job := &batchv1.Job{}
	if err := l.decode(s, job, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	// The selector of a Job is made by the API server, with labels that only it gives.
	return l.workload(s, workload{meta: job.ObjectMeta, count: job.Spec.Parallelism, counter: "parallelism", template: job.Spec.Template})
}

// replicationController has a selector without operators, and may lack its template.
func (l *loader) replicationController(s source) error {
	rc := &corev1.ReplicationController{}
	if err := l.decode(s, rc, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	if rc.Spec.Template == nil {
		return s.fail(field.NewPath("spec", "template"), "is missing; say which pods it makes")
	}
	selector := rc.Spec.Selector
	if len(selector) == 0 {
		selector = rc.Spec.Template.Labels
	}
	return l.replicas(s, rc.ObjectMeta, rc.Spec.Replicas, &metav1.LabelSelector{MatchLabels: selector}, *rc.Spec.Template)
}

// cronJob has the pods that one of its jobs has while it runs.
func (l *loader) cronJob(s source) error {
	c := &batchv1.CronJob{}
	if err := l.decode(s, c, validation.NameIsDNSSubdomain, true); err != nil {
		return err
	}
	job := c.Spec.JobTemplate.Spec
	return l.workload(s, workload{meta: c.ObjectMeta, count: job.Parallelism, counter: "jobTemplate.spec.parallelism", below: []string{"jobTemplate", "spec"}, template: job.Template})
}
