//go:build linux

package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// fromLab denies the pods of team blue what comes to those of team red.
const fromLab = `
tier: Admin
priority: 10
subject: {namespaces: {matchLabels: {team: red}}}
ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: blue}}}]}]
`

// A pod of another node that is deleted by force may run on, so it stays denied.
func TestLostPod(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.namespace("lab", map[string]string{"team": "blue"})
	w.pods([]pod{labPod})
	w.clusterKind()
	w.clusterPolicy("from-lab", fromLab)
	n := start(t, ownNode, h.addr, options{flags: hurried})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	probe := h.incoming(labPod, pod{addr: webAddr}, 80)
	denied := func() string {
		if got := h.Sim().Ask(probe)[0]; got != hnsfault.Denied {
			return fmt.Sprintf("from the pod that is lost: %v", got)
		}
		return ""
	}
	require.Empty(t, denied())
	require.NoError(t, w.kube.remove(t.Context(), pods, labPod.namespace, labPod.name))
	always(t, 5*time.Second, denied)
}
