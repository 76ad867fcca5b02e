package dataplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestHiddenEndpointsAreReadByLooks: endpoints drop out of listings while HNS restarts, and are
// there. The look that finds that has read them: the next event does not wait for it to be done
// again.
func TestHiddenEndpointsAreReadByLooks(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/w1 10.0.0.1", "pod x/w2 10.0.0.2", bGood, "apply",
		"state ep-1 Detached", "observe", "pod x/a 10.0.1.1 app=api remote", "apply", "calls SetPolicy/Update=1")
	require.Zero(t, w.report.Calls["Endpoint/Get"])

	w.clear("ep-1")
	w.do("observe", "state ep-1 AttachedSharing", "apply", "calls ACL/Add=1")
	require.Equal(t, 2, w.report.Calls["Endpoint/Get"], "right before the write, and right after")

	w.do("state ep-1 Detached", "fault Endpoint/Get ep-1 refuse", "observe", "apply", "calls")
	require.Equal(t, 1, w.report.Calls["Endpoint/Get"], "what could not be read outside")
}

// TestProbeThatGetsNoAnswer: HNS refuses a policy's rules, and when they are to be
// tried again their sets cannot be written, or the endpoint cannot be read. The agent
// does not spin.
func TestProbeThatGetsNoAnswer(t *testing.T) {
	const p = `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 6666}]}]}`
	for _, op := range []string{"SetPolicy/Update", hns.OpEndpointGet} {
		t.Run(op, func(t *testing.T) {
			w := dWorld(t)
			w.sim.RejectACL(func(a hns.ACL) bool { return a.LocalPorts == "6666" })
			w.do(p, "! apply", "pod x/api2 10.0.1.9 app=api remote")
			w.sim.Inject(hnsfault.Fault{Op: op, Times: -1})
			for range 20 {
				_ = w.apply()
				require.Greater(t, w.report.Next(), 100*time.Millisecond)
				w.now = w.now.Add(w.report.Next())
			}
		})
	}
}

// TestEndpointIsGoneWhateverTheCode: HNS enumerates it no more, and answers a read
// with a code that says nothing.
func TestEndpointIsGoneWhateverTheCode(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/w 10.0.0.1", bGood, "apply", "no-endpoint ep-1")
	w.sim.SetPersonality(hnsfault.Personality{Code: func(*hns.OpError) uint32 { return 0x803B0031 }})
	w.do("observe", "! apply")
	require.Len(t, w.dp.Dump().Endpoints, 1)
}

// TestStrangerIsReadAgain: one read says that an endpoint is elsewhere. Its pod has no
// other, so it is read once more, and less and less often; without a pod that waits it
// is never read.
func TestStrangerIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "ep-1", Err: hns.ErrElsewhere})
	w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "ep-9", Times: -1, Err: hns.ErrElsewhere})
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-9 10.0.0.9", "pod x/w 10.0.0.1", bGood, "apply",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/443 ep-1 in allow")
	for began := w.now; w.report.Next() > 0; w.now = w.now.Add(w.report.Next()) {
		require.Less(t, w.now.Sub(began), 10*time.Second)
		_ = w.apply()
	}
	w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/443 ep-1 in block", "wait 1h")
	w.sim.ResetCalls()
	w.do("observe")
	require.Equal(t, 1, w.sim.Counts()[hns.OpEndpointGet], "ep-1 only")
	w.sim.ResetCalls()
	w.do("apply")
	require.Zero(t, w.sim.Counts()[hns.OpEndpointGet])
}

// TestPodWithAnotherAddress: a pod keeps its UID and gets another address. What HNS has of the
// endpoint that it had is read at once: it may be gone, or made anew under its GUID with the new
// address and without a rule. One that is still there is nobody's. It keeps its rules, in which
// the sets go on, and nothing is written to it.
func TestPodWithAnotherAddress(t *testing.T) {
	const policy = `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: v1}}}]}]}`
	for name, tt := range map[string]struct {
		hns       []string // what the CNI does first
		endpoints string
		writes    string // of rules
		then      []string
	}{
		"made anew under its GUID": {
			[]string{"no-endpoint ep", "endpoint ep 10.0.0.2"}, "[ep of x/w]", "calls ACL/Add=1 SetPolicy/Update=1",
			[]string{"trace 10.9.9.9 -> 10.0.0.2 TCP/80 ep in block", "trace 10.0.1.1 -> 10.0.0.2 TCP/80 ep in allow"},
		},
		"another one": {
			[]string{"no-endpoint ep", "endpoint next 10.0.0.2"}, "[next of x/w]", "calls ACL/Add=1 SetPolicy/Update=1",
			[]string{"trace 10.9.9.9 -> 10.0.0.2 TCP/80 next in block"},
		},
		"another one beside it": {
			[]string{"endpoint next 10.0.0.2"}, "[ep of  next of x/w]", "calls ACL/Add=1 SetPolicy/Update=1",
			[]string{
				"trace 10.9.9.9 -> 10.0.0.1 TCP/80 ep in block", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow", "delete policy x/p", "pod x/a 10.0.1.2 a=v1 remote", "apply",
				"calls ACL/Update=1 SetPolicy/Update=1", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in allow",
				"no-endpoint ep", "observe", "apply", "apply",
			},
		},
		"none yet": {
			nil, "[ep of ]", "calls SetPolicy/Update=1",
			[]string{"trace 10.9.9.9 -> 10.0.0.1 TCP/80 ep in block", "no-endpoint ep", "endpoint next 10.0.0.2", "wait 1s", "apply", "trace 10.9.9.9 -> 10.0.0.2 TCP/80 next in block"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 a=v1 remote", "policy x/p "+policy, "apply")
			w.do(tt.hns...)
			w.do("pod x/w 10.0.0.2", "apply", tt.writes)
			var endpoints []string
			for _, ed := range w.dp.Dump().Endpoints {
				endpoints = append(endpoints, ed.ID+" of "+ed.Pod)
			}
			require.Equal(t, tt.endpoints, fmt.Sprint(endpoints))
			w.do(tt.then...)
		})
	}
}
