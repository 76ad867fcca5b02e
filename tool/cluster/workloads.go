package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/manifest"
)

// setWorkload copies labels and ports from a workload's template to its pods, adds missing pods, and
// deletes surplus pods, the last ones first.
func (a *applying) setWorkload(w *manifest.Workload) error {
	pods, ran := a.podsOf(w)
	surplus, lacking := a.compare(w, pods, ran)
	there := len(pods)+ran > 0
	if _, is := a.before.Makers[w.ID()]; is || !a.before.FromManifests && len(lacking) == 0 {
		there = true
	}
	change := ObjectChange{Kind: w.Kind, Object: w.Namespace + "/" + w.Name, Change: ChangeOf(there, true, true)}
	if err := w.TooMany(len(a.pods) + len(lacking)); err != nil {
		return err
	}
	other := len(surplus)+len(lacking) > 0
	for _, key := range pods {
		other = a.setPod(w.Pod(key.Name, a.pods[key].Node)) != Unchanged || other
	}
	number := 0
	for _, node := range lacking {
		key := desired.PodKey{Namespace: w.Namespace}
		for taken := true; taken; number++ {
			key.Name = fmt.Sprintf("%s-%d", w.Name, number)
			_, taken = a.pods[key]
		}
		a.setPod(w.Pod(key.Name, node))
	}
	for _, key := range surplus {
		if _, was := a.old[key]; !was {
			a.warn("Pod", key.String(), reasonNotPlanned, fmt.Sprintf("it is one more than %s %s/%s is to have, which deletes it at once, so its connections are not counted; "+
				"take it out, or have that make more pods", w.Kind, w.Namespace, w.Name))
		}
		delete(a.pods, key)
	}
	if other && change.Change == Unchanged {
		change.Change = Changed
	}
	change.Pods, change.New, change.Deleted = len(pods)+len(lacking), len(lacking), len(surplus)
	a.objects = append(a.objects, change)
	return nil
}

// podsOf returns the running pods of a workload, and the number of its finished pods. Pods that are being
// deleted are in neither.
func (a *applying) podsOf(w *manifest.Workload) (pods []desired.PodKey, ran int) {
	owned := slices.Clone(a.owned[w.ID()])
	slices.SortFunc(owned, compareKeys)
	for _, key := range owned {
		switch p, there := a.pods[key]; {
		case !there:
		case p.Finished:
			a.kept[key] = true
			ran++
		case p.Deleting:
			a.kept[key] = true
		default:
			pods = append(pods, key)
		}
	}
	return pods, ran
}

// compare returns the surplus pods of a workload, and the nodes of its missing pods.
func (a *applying) compare(w *manifest.Workload, pods []desired.PodKey, ran int) (surplus []desired.PodKey, lacking []string) {
	switch {
	case w.PerNode:
		return a.perNode(w, pods)
	case w.Kind == "Job" && ran > 0: // a Job that has run does not restart
		return nil, nil
	}
	want := w.Wanted(len(pods))
	if len(pods) > want {
		return pods[want:], nil
	}
	return nil, slices.Repeat([]string{""}, want-len(pods))
}

// perNode is compare for a DaemonSet. In a live cluster only new nodes can lack a pod, unless there is no
// pod at all, because a node without one may repel it with a taint.
func (a *applying) perNode(w *manifest.Workload, pods []desired.PodKey) (surplus []desired.PodKey, lacking []string) {
	wanted, known := map[string]bool{}, map[string]bool{}
	for _, n := range a.nodes {
		known[n.Name] = !n.Unlisted
		wanted[n.Name] = !n.Unlisted && w.Matches(n.Labels)
	}
	covered := map[string]bool{}
	for _, key := range pods {
		node := a.pods[key].Node
		covered[node] = true
		if known[node] && !wanted[node] {
			surplus = append(surplus, key)
		}
	}
	for _, n := range sorted(a.nodes) {
		if wanted[n.Name] && !covered[n.Name] && (len(pods) == 0 || a.before.FromManifests || slices.Contains(a.newNodes, n.Name)) {
			lacking = append(lacking, n.Name)
		}
	}
	if len(pods)+len(lacking) == 0 {
		lacking = []string{""} // one pod without a node
	}
	return surplus, lacking
}

// withControllers returns labels together with the old labels that controllers added. In manifests such
// labels are written by hand, so only hashes are kept.
func (a *applying) withControllers(labels, old map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range old {
		hash := key == appsv1.DefaultDeploymentUniqueLabelKey || key == appsv1.ControllerRevisionHashLabelKey || key == "pod-template-generation"
		name := key == batchv1.JobNameLabel || key == "job-name"
		if hash || !a.before.FromManifests && (name || explain.OfController(key)) {
			kept[key] = value
		}
	}
	return union(kept, labels)
}

// scheduled matches the name of a Job of a CronJob: the CronJob's name and the minutes since 1970, or the
// seconds in older versions. It accepts the years from 2015 to about 2040, and so no date like 20260101 or
// 2026010112.
var scheduled = regexp.MustCompile(`^(.+)-((2[4-9]|3[0-7])\d{6}|1[4-9]\d{8})$`)

// owners returns the owners of a pod, as "ReplicaSet namespace/name", the controller first. If makers has
// the controller, it gives the controller's own owner. Else the name of a ReplicaSet or Job is parsed to
// find its Deployment or CronJob.
func owners(p *corev1.Pod, makers map[string]string) []string {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return nil
	}
	out := []string{ref.Kind + " " + p.Namespace + "/" + ref.Name}
	if owner, ok := makers[out[0]]; ok {
		if owner != "" {
			out = append(out, owner)
		}
		return out
	}
	switch ref.Kind {
	case "ReplicaSet":
		hash := p.Labels["pod-template-hash"]
		if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok && hash != "" {
			out = append(out, "Deployment "+p.Namespace+"/"+name)
		}
	case "Job":
		if m := scheduled.FindStringSubmatch(ref.Name); m != nil {
			out = append(out, "CronJob "+p.Namespace+"/"+m[1])
		}
	}
	return out
}
