package dataplane_test

import (
	"testing"

	"github.com/winnpm/winnpm/tool/hnssim"
)

const (
	cDeny     = `policy x/deny {podSelector: {}}`
	cWeb      = `policy x/web {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`
	cVersions = `policy x/versions {podSelector: {matchExpressions: [{key: app, operator: In, values: [v1, v2]}]}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`
	cNotevil  = `policy x/notevil {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: kind, operator: NotIn, values: [evil]}]}}]}]}`
)

// TestScenario_C1_AddressReusedOnOneEndpoint: B gets A's address on the same
// endpoint before A's delete is seen. B is isolated all the time; what was A's
// goes in the transaction that makes B the owner.
func TestScenario_C1_AddressReusedOnOneEndpoint(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "endpoint ep-c 10.0.0.3",
		"pod x/a 10.0.0.1 app=web", "pod x/c 10.0.0.3 app=web", "pod x/api 10.0.1.1 app=api remote",
		cDeny, cWeb, "apply",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in block")
	w.neverAllowed("10.0.1.2", "10.0.0.1", "ep")
	w.do("wait 1s", "pod x/b 10.0.0.1 app=api", "apply", "calls ACL/Update=1 SetPolicy/Update=1",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block",   // A's rules are gone
		"trace 10.0.0.1 -> 10.0.0.3 TCP/80 ep-c in allow", // and B is what it is
	)
	w.do("delete pod x/a", "apply", "calls", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block")
}

func packet(src, dst string, port uint16) hnssim.Packet {
	return hnssim.Packet{Src: mustAddr(src), Dst: mustAddr(dst), Protocol: 6, DstPort: port}
}

// TestScenario_C7_FinishedPodsAddressIsReused: the memberships of a pod go when
// it finishes, not when it is deleted.
func TestScenario_C7_FinishedPodsAddressIsReused(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "pod x/job 10.0.1.1 app=api remote",
		cWeb, "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow",
		"pod x/job 10.0.1.1 app=api remote finished", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block",
		"pod x/other 10.0.1.1 app=db remote", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in block",
		"delete pod x/job", "apply", "calls")
}
