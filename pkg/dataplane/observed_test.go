package dataplane_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestUnlistedRefusalOfRules: HNS refuses a policy's rules with a code of no known
// meaning. The pod has all others, the policy is told of, with the code.
func TestUnlistedRefusalOfRules(t *testing.T) {
	for _, code := range []uint32{0x80004005, 0x803B7777} {
		w := newbornWorld(t)
		w.sim.SetPersonality(hnsfault.Personality{Code: func(*hns.OpError) uint32 { return code }})
		w.sim.RejectACL(func(a hns.ACL) bool { return a.LocalPorts == "443" })
		_ = w.apply()
		w.do(stranger+"block", "trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in allow", "trace 10.9.9.9 -> 10.0.0.4 TCP/443 ep in block")
		require.True(t, w.report.Converged())
		require.Equal(t, []string{"x/q"}, objects(w.report))
		require.Contains(t, w.report.Warnings[0].Message, hns.LookupCode(code).Name)
	}
}

// TestPodThatComesWhileSetsWait: sets could not be written, and are tried again after
// a pause. A pod that comes meanwhile is isolated at once.
func TestPodThatComesWhileSetsWait(t *testing.T) {
	w := newbornWorld(t)
	w.sim.Inject(hnsfault.Fault{Op: "SetPolicy/Add", Times: -1})
	w.do("! apply", "endpoint ep-2 10.0.0.5", "pod x/two 10.0.0.5 app=web")
	_ = w.apply()
	require.Zero(t, w.report.Calls["SetPolicy/Add"])
	w.do("trace 10.9.9.9 -> 10.0.0.5 TCP/80 ep-2 in block")
}

// TestUnreadEndpointThatCannotBeRead: one of three new endpoints cannot be read. The other
// two are programmed in the same transaction.
func TestUnreadEndpointThatCannotBeRead(t *testing.T) {
	w := newbornWorld(t)
	w.do("endpoint a 10.0.0.1", "pod x/a 10.0.0.1", "endpoint z 10.0.0.9", "pod x/z 10.0.0.9")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "a", Times: -1, Code: 0x803B0031})
	w.do("! apply", stranger+"block", "trace 10.9.9.9 -> 10.0.0.9 TCP/80 z in block")
	require.Equal(t, time.Second, w.report.Next())
	w.do("wait 1s", "! apply", "calls")
	require.Equal(t, 1, w.report.Calls[hns.OpEndpointGet], "that one alone")
}

// TestRulesInHNSsOwnSpelling: HNS shows ports in words that nobody knows. That is
// learned after the write, so nothing is written again, and nobody is blamed.
func TestRulesInHNSsOwnSpelling(t *testing.T) {
	w := newbornWorld(t)
	w.sim.SetPersonality(hnsfault.Personality{Show: func(_ string, out *hns.Result) {
		for i, p := range out.Endpoint.Policies {
			out.Endpoint.Policies[i].Settings = bytes.ReplaceAll(p.Settings, []byte(`"443"`), []byte(`"port:443"`))
		}
	}})
	w.do("apply", "calls SetPolicy/Add=1 ACL/Add=1")
	for range 10 {
		w.do("wait 5m", "observe", "apply", "calls")
		require.Empty(t, w.report.Warnings)
		require.True(t, w.report.Converged())
	}
	require.Zero(t, w.dp.Stats().Conflicts)
	spelt := map[string]string{}
	for _, s := range w.dp.Spellings() {
		require.Equal(t, "acl", s.Kind)
		spelt[s.Object] = s.ShownRule.LocalPorts
	}
	require.Equal(t, map[string]string{"azure-acl-x.q": "port:443"}, spelt)
	w.do("drop-acl ep azure-acl-x.q", "observe", "apply", "calls ACL/Add=1")
}

// TestAnotherMeaningIsNoSpelling: a rule that is shown with another port, however
// often it is read, is another rule.
func TestAnotherMeaningIsNoSpelling(t *testing.T) {
	w := newbornWorld(t)
	w.sim.SetPersonality(hnsfault.Personality{Show: func(_ string, out *hns.Result) {
		for i, p := range out.Endpoint.Policies {
			out.Endpoint.Policies[i].Settings = bytes.ReplaceAll(p.Settings, []byte(`"443"`), []byte(`"8443"`))
		}
	}})
	for range 10 {
		_ = w.apply()
		require.False(t, w.report.Converged())
		w.now = w.now.Add(max(w.report.Next(), time.Second))
	}
	require.Empty(t, w.dp.Spellings())
	require.NotZero(t, w.dp.Stats().Conflicts)
}

// TestOthersCutIsRemembered: HNS refuses to take back what it shows of others. After
// the first Update it is asked at once for what it takes, which is reported.
func TestOthersCutIsRemembered(t *testing.T) {
	w := newbornWorld(t)
	w.sim.SetPersonality(hnsfault.Personality{Refuse: hnsfault.OnlyDocumented})
	w.do("apply", "delete policy x/q", "! apply", "calls ACL/Update=2", "trace 10.9.9.9 -> 10.0.0.4 TCP/443 ep in block")
	require.Len(t, w.report.Spellings, 1)
	require.Equal(t, "others", w.report.Spellings[0].Kind)
	require.Empty(t, w.report.Warnings)
	w.do(newbornQ, "apply", "delete policy x/q", "apply", "calls ACL/Update=1")
	require.Empty(t, w.report.Spellings)
	n := 0
	for _, p := range w.policiesOf("ep") {
		if a, err := p.ACL(); err == nil && !a.Ours() {
			n++
		}
	}
	require.Equal(t, len(hnssim.DefaultForeign()), n, "nothing of theirs is lost")
}
