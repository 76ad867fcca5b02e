//go:build linux

package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod with hostNetwork that is no HostProcess pod has an endpoint and an address of the pod
// network, so policies select it and its address is in their sets.
func TestHostNetworkByItsField(t *testing.T) {
	h, w, _ := openShop(t)
	at := addr(23)
	h.plug(at)
	require.NoError(t, w.kube.create(t.Context(), pods, "shop", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "field", Labels: map[string]string{"app": "db"}},
		Spec:       corev1.PodSpec{NodeName: ownNode, HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}))
	require.NoError(t, w.kube.setStatus(t.Context(), pod{namespace: "shop", name: "field", addr: at}))
	h.waitVerdicts(w.kube, ownAddr)
	require.NotEmpty(t, h.ours(at), "from-web isolates it")
}
