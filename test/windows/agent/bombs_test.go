//go:build linux

package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hostile/cluster"
)

const (
	// bombedCall is what a call of the DLLs takes.
	bombedCall = 5 * time.Millisecond
	// bombedLimit is until a policy of the victim is in force: an interval, sixteen
	// calls of HNS that are five of the DLLs each, a second that a round over the wire
	// of the simulator takes, and twice that, as the machine may be busy.
	bombedLimit = 2 * (500*time.Millisecond + 16*5*bombedCall + time.Second)
)

// A tenant writes two policies on its pods: 6,000 peers, and 1,000 peers times 5,000
// ports. Meanwhile a policy of somebody else comes into force soon, the checks pass,
// and nothing opens.
func TestTwoBombs(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.namespace(cluster.Tenant, nil)
	var evil []pod
	for i := range 5 {
		p := pod{namespace: cluster.Tenant, name: fmt.Sprintf("evil-%d", i), node: ownNode, addr: addr(10 + i), labels: map[string]string{"role": "db"}}
		h.plug(p.addr)
		evil = append(evil, p)
	}
	w.pods(evil)
	n := start(t, ownNode, h.addr, options{config: `{}`, flags: calm})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	h.SetLatency(bombedCall)

	db, far := pod{addr: dbAddr}, pod{addr: farAddr}
	h.watch([]hnsfault.Probe{
		h.incoming(pod{addr: webAddr}, db, 80), // passes, and goes on to
		h.incoming(stranger, db, 80), h.incoming(evil[0], db, 80), h.incoming(evil[0], db, 443),
	})
	for _, o := range []cluster.Object{cluster.Values("peers", "db", 6000), cluster.PeersByPorts("ports", "db", 1000, 5000)} {
		np := o.Make().(*networkingv1.NetworkPolicy)
		np.Namespace, np.Name = o.Namespace, o.Name
		require.NoError(t, w.kube.create(t.Context(), policies, o.Namespace, np))
	}
	// The first one while the agent takes the bombs in, the others while they stand.
	for i, port := range []uint16{443, 444, 445} {
		began := time.Now()
		w.policy("shop", fmt.Sprintf("late-%d", i), fmt.Sprintf(
			`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: far}}}], ports: [{port: %d}]}]}`, port))
		eventually(t, settle, func() string { return h.allows(h.incoming(far, db, port)) })
		took := time.Since(began)
		t.Logf("%v a call: policy %d of the victim was in force after %v", bombedCall, i, took.Round(time.Millisecond))
		require.Less(t, took, bombedLimit)
		require.Empty(t, n.check("/healthz"))
	}
	h.SetLatency(0)
	n.waitReady()
	require.Empty(t, moves(h.Sim().Transitions()))
	for _, p := range evil {
		require.Empty(t, h.denies(h.incoming(stranger, p, 80)), "what is left out of the tenant's policies opens nothing")
	}
}
