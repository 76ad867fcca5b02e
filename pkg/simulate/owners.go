package simulate

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/simulate/manifest"
)

// Owners names the workloads that have made a pod, as "Deployment namespace/name", the one that
// somebody wrote last: a Deployment makes ReplicaSets, and a CronJob makes Jobs. What of these
// is among the makers says itself what has made it; of others the name tells.
func Owners(p *corev1.Pod, makers map[string]manifest.Maker) []string {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return nil
	}
	out := []string{ref.Kind + " " + p.Namespace + "/" + ref.Name}
	if m, ok := makers[out[0]]; ok {
		if m.Owner != "" {
			out = append(out, m.Owner)
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
		if i := strings.LastIndex(ref.Name, "-"); i > 0 && isSchedule(ref.Name[i+1:]) {
			maker("CronJob", ref.Name[:i])
		}
	}
	return out
}

// Times since 1970, of 2015 and later, before which there were no CronJobs: in minutes, as a
// CronJob puts it behind the names of its Jobs, and in seconds, as it did in older versions.
// A date, like 20260101 or 2026010112, is none of them.
const (
	firstMinute, firstSecond = 23_667_840, 1_420_070_400
	lastMinute, lastSecond   = 99_999_999, 1_999_999_999
)

func isSchedule(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && (firstMinute <= n && n <= lastMinute || firstSecond <= n && n <= lastSecond)
}
