package simulate

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/tool/manifest"
)

// Owners returns the makers of a pod, as "ReplicaSet namespace/name", the nearest first. If makers
// has the nearest, its Owner says what made that; else the name of a ReplicaSet or Job is taken
// apart: a Deployment makes ReplicaSets, and a CronJob makes Jobs.
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

// Times since 1970 in the years in which there are CronJobs: in minutes, as a CronJob puts it behind
// the names of its Jobs, and in seconds, as it did in older versions. A date, like 20260101 or
// 2026010112, is none of them.
const (
	firstYear, lastYear      = 2015, 2040
	firstMinute, firstSecond = 23_667_840, 1_420_070_400
	lastMinute, lastSecond   = 37_344_959, 1_999_999_999
)

func isSchedule(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return false
	}
	return firstMinute <= n && n <= lastMinute && !isDate(text) || firstSecond <= n && n <= lastSecond
}

// isDate reports whether a number is rather a date that begins with its day, as 31122026: one of
// 4,000 minutes looks like one.
func isDate(text string) bool {
	day, err := time.Parse("02012006", text)
	return err == nil && firstYear <= day.Year() && day.Year() <= lastYear
}
