package dataplane_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScenario_D10_BytesDoNotFollowThePods: the label of a namespace changes
// while its ns- set is in HNS because another rule needs it. The request is the
// same with five pods in it and with five thousand.
func TestScenario_D10_BytesDoNotFollowThePods(t *testing.T) {
	few, many := d10Bytes(t, 5), d10Bytes(t, 5000)
	require.Equal(t, few, many)
	require.Positive(t, few)
}

// d10Bytes returns what goes to HNS when a namespace with so many pods loses its
// label and gets it back.
func d10Bytes(t *testing.T, pods int) int {
	w := dWorld(t, policyText("p", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: big}}}]}]}`)+
		policyText("all", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 443}]}]}`))
	w.do("namespace big team=big", "policy p", "policy all")
	for i := range pods {
		w.do(fmt.Sprintf("pod big/p%d 10.1.%d.%d remote", i, i/250, i%250+1))
	}
	w.do("apply", "trace 10.1.0.3 -> 10.0.0.1 TCP/80 ep-1 in allow", "namespace big", "apply", "calls SetPolicy/Update=1")
	bytes := bytesOf(w.sim)
	w.do("trace 10.1.0.3 -> 10.0.0.1 TCP/80 ep-1 in block", "trace 10.1.0.3 -> 10.0.0.1 TCP/443 ep-1 in allow",
		"namespace big team=big", "apply", "calls SetPolicy/Update=1", "trace 10.1.0.3 -> 10.0.0.1 TCP/80 ep-1 in allow")
	return bytes + bytesOf(w.sim)
}
