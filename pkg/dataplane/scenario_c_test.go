package dataplane_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/hnssim"
)

var cPolicies = policyText("deny", `{podSelector: {}}`) +
	policyText("web", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`) +
	policyText("versions", `{podSelector: {matchExpressions: [{key: app, operator: In, values: [v1, v2]}]}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`) +
	policyText("notevil", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: kind, operator: NotIn, values: [evil]}]}}]}]}`)

// TestScenario_C1_AddressReusedOnOneEndpoint: B gets A's address on the same
// endpoint before A's delete is seen. B is isolated all the time; what was A's
// goes in the transaction that makes B the owner.
func TestScenario_C1_AddressReusedOnOneEndpoint(t *testing.T) {
	w := newWorld(t, cPolicies)
	w.do("namespace x", "endpoint ep 10.0.0.1", "endpoint ep-c 10.0.0.3",
		"pod x/a 10.0.0.1 app=web", "pod x/c 10.0.0.3 app=web", "pod x/api 10.0.1.1 app=api remote",
		"policy deny", "policy web", "apply",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in block")
	w.neverAllowed("10.0.1.2", "10.0.0.1", "ep")
	w.do("advance 1s", "pod x/b 10.0.0.1 app=api", "apply", "calls ACL/Update=1 SetPolicy/Update=1",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block",   // A's rules are gone
		"trace 10.0.0.1 -> 10.0.0.3 TCP/80 ep-c in allow", // and B is what it is
	)
	w.do("delete pod x/a", "apply", "calls", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block")
}

// TestScenario_C1_NextClaimantInherits: when the owner goes, the next one has
// its memberships in the same transaction.
func TestScenario_C1_NextClaimantInherits(t *testing.T) {
	w := newWorld(t, cPolicies)
	w.do("namespace x", "endpoint ep 10.0.0.3", "pod x/web 10.0.0.3 app=web",
		"pod x/old 10.0.1.1 app=api remote", "pod x/new 10.0.1.1 app=db remote", "policy web", "apply",
		"trace 10.0.1.1 -> 10.0.0.3 TCP/80 ep in block",
		"delete pod x/new", "apply", "trace 10.0.1.1 -> 10.0.0.3 TCP/80 ep in allow")
}

func packet(src, dst string, port uint16) hnssim.Packet {
	return hnssim.Packet{Src: mustAddr(src), Dst: mustAddr(dst), Protocol: 6, DstPort: port}
}

// TestScenario_C3_OneListingErrorThenQuiet: it is tried again without an event.
func TestScenario_C3_OneListingErrorThenQuiet(t *testing.T) {
	w := newWorld(t, cPolicies)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "policy web",
		"fault Endpoint/Enumerate * refuse", "! apply", "retry 1s")
	require.NotEmpty(t, w.report.Warnings)
	w.do("advance 1s", "apply", "calls SetPolicy/Add=1 ACL/Add=1", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block")
	require.True(t, w.report.Converged())
	require.Empty(t, w.report.Warnings)
}

// TestScenario_C7_FinishedPodsAddressIsReused: the memberships of a pod go when
// it finishes, not when it is deleted.
func TestScenario_C7_FinishedPodsAddressIsReused(t *testing.T) {
	w := newWorld(t, cPolicies)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "pod x/job 10.0.1.1 app=api remote",
		"policy web", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow",
		"pod x/job 10.0.1.1 app=api remote finished", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block",
		"pod x/other 10.0.1.1 app=db remote", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block",
		"delete pod x/job", "apply", "calls")
}

// TestScenario_C9_NewEndpointWhileTheOldIsListed: a new pod with the same
// address on a new GUID, the old endpoint still there. The new one is isolated
// in the same round.
func TestScenario_C9_NewEndpointWhileTheOldIsListed(t *testing.T) {
	w := newWorld(t, cPolicies)
	w.do("namespace x", "endpoint ep-old 10.0.0.1", "pod x/p 10.0.0.1 app=web uid=one", "policy deny", "apply",
		"endpoint ep-new 10.0.0.1", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-new in allow",
		"pod x/p 10.0.0.1 app=web uid=two", "apply",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-new in block", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-old in block")
	require.Empty(t, cmp.Diff([]string{"ep-new", "ep-old"}, w.dp.Dump().Pods[0].Endpoints))
}
