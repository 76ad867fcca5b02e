package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/winnpm/winnpm/pkg/state"
)

// Workload is a group of similar pods that no rule and no set of the dump distinguishes. Its pods have the
// same namespace, the same first part of the name, the same ports, and the same labels except per-pod
// labels of controllers, and either all own their addresses for certain or none does.
type Workload struct {
	// Name is namespace/name, where name is that of the pods' owner, or the first part of the pods' names. Several
	// workloads with the same name get the suffixes #2, #3 and so on, except the first.
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Pods      []string `json:"pods"`  // namespace/name, sorted
	Local     bool     `json:"local"` // its pods run on the dump's node
}

// Workloads returns the workloads of a cluster, sorted by name. With several clusters it groups only pods
// that none of them distinguishes.
func Workloads(cluster *Cluster, others ...*Cluster) []Workload {
	d := cluster.Dump()
	var members []*state.PodDump
	var addrs []netip.Addr
	for i := range d.Pods {
		p := &d.Pods[i]
		if addr, ok := cluster.Owns(p); ok {
			members, addrs = append(members, p), append(addrs, addr)
		}
	}
	keys := make([]string, len(members))
	for _, c := range append([]*Cluster{cluster}, others...) {
		for i, class := range c.Classes(addrs) {
			keys[i] += fmt.Sprintf("%d ", class)
		}
	}
	groups := map[string][]*state.PodDump{}
	for i, m := range members {
		key := keys[i] + traits(m)
		groups[key] = append(groups[key], m)
	}
	out := make([]Workload, 0, len(groups))
	for _, group := range groups {
		out = append(out, workload(group))
	}
	slices.SortFunc(out, func(a, b Workload) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pods[0], b.Pods[0])) })
	numberDuplicates(out)
	return out
}

// traits returns a key of the visible properties that the pods of a workload share.
func traits(p *state.PodDump) string {
	labels := map[string]string{}
	for key, value := range p.Labels {
		if !OfController(key) {
			labels[key] = value
		}
	}
	namespace, name, _ := strings.Cut(p.Pod, "/")
	stem, _, _ := strings.Cut(name, "-") // the first part of the name, for pods without labels
	text, err := json.Marshal([]any{namespace, stem, labels, p.Ports, p.Local, p.InDoubt})
	if err != nil { // cannot happen: these values marshal
		return p.Pod
	}
	return string(text)
}

// OfController reports whether a label is one that controllers add to each pod.
func OfController(label string) bool { return addedLabels[label] }

var addedLabels = map[string]bool{
	appsv1.DefaultDeploymentUniqueLabelKey: true,
	appsv1.ControllerRevisionHashLabelKey:  true,
	appsv1.StatefulSetPodNameLabel:         true,
	appsv1.PodIndexLabel:                   true,
	"pod-template-generation":              true, // of a DaemonSet
	batchv1.ControllerUidLabel:             true,
	"controller-uid":                       true, // the same, before it had a prefix
	batchv1.JobCompletionIndexAnnotation:   true, // a label too
}

// workload makes a workload of similar pods. Pods of several owners get the first part of their names.
func workload(group []*state.PodDump) Workload {
	w := Workload{Namespace: namespaceOf(group[0].Pod), Local: group[0].Local}
	name := Owner(group[0])
	for _, m := range group {
		w.Pods = append(w.Pods, m.Pod)
		if Owner(m) != name {
			name, _, _ = strings.Cut(name, "-")
		}
	}
	slices.Sort(w.Pods)
	w.Name = w.Namespace + "/" + name
	return w
}

// numberDuplicates appends #2, #3 and so on to equal names in a sorted list.
func numberDuplicates(list []Workload) {
	n := 1
	for i := 1; i < len(list); i++ {
		if list[i].Name != list[i-n].Name {
			n = 1
			continue
		}
		n++
		list[i].Name = fmt.Sprintf("%s#%d", list[i].Name, n)
	}
}

// Owner returns the name of a pod's owner, like its Deployment, by removing the suffix that the pod's
// labels reveal. Without such labels it returns the pod's name.
func Owner(p *state.PodDump) string {
	_, name, _ := strings.Cut(p.Pod, "/")
	cut := func(at int) string {
		if at > 0 {
			return name[:at]
		}
		return name
	}
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		return cut(strings.LastIndex(name, "-"+hash+"-"))
	}
	for _, key := range []string{appsv1.StatefulSetPodNameLabel, appsv1.ControllerRevisionHashLabelKey, batchv1.ControllerUidLabel} {
		if p.Labels[key] != "" {
			return cut(strings.LastIndex(name, "-"))
		}
	}
	return name
}
