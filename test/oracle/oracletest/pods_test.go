package oracletest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/test/oracle/gen"
)

func localPod(uid, name, addr string, age time.Duration) corev1.Pod {
	created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid), CreationTimestamp: created},
		Spec:       corev1.PodSpec{NodeName: gen.Node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr},
	}
}
