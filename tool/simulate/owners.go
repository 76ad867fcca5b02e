package simulate

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scheduled is the name of a Job that a CronJob made: minutes since 1970 follow the CronJob's name, or
// seconds in older versions, of the years from 2015 to about 2040. A date like 20260101 or 2026010112
// is neither.
var scheduled = regexp.MustCompile(`^(.+)-((2[4-9]|3[0-7])\d{6}|1[4-9]\d{8})$`)

// Owners returns the makers of a pod, as "ReplicaSet namespace/name", the nearest first. If makers
// has the nearest, its Owner says what made that; else the name of a ReplicaSet or Job is taken
// apart: a Deployment makes ReplicaSets, and a CronJob makes Jobs.
func Owners(p *corev1.Pod, makers map[string]string) []string {
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
	maker := func(kind, name string) { out = append(out, kind+" "+p.Namespace+"/"+name) }
	switch ref.Kind {
	case "ReplicaSet":
		if hash := p.Labels["pod-template-hash"]; hash != "" && strings.HasSuffix(ref.Name, "-"+hash) {
			maker("Deployment", strings.TrimSuffix(ref.Name, "-"+hash))
		}
	case "Job":
		if m := scheduled.FindStringSubmatch(ref.Name); m != nil {
			maker("CronJob", m[1])
		}
	}
	return out
}
