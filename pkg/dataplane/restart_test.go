package dataplane_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestRestartWritesNothing: a new process that finds everything as it should be
// writes nothing; one that finds orphans deletes just these, once no rule
// names them.
func TestRestartWritesNothing(t *testing.T) {
	const p = `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}, {namespaceSelector: {matchLabels: {kind: evil}}}]}]}`
	w := dWorld(t)
	w.do("node 10.1.0.4", p, "apply")
	before := w.sim.Dump()

	w.do("restart")
	dObjects(w)
	w.do("node 10.1.0.4", p, "apply", "calls")
	require.Empty(t, cmp.Diff(before, w.sim.Dump()))

	require.NoError(t, w.sim.PutSet(hns.SetPolicy{ID: hns.SetIDPrefix + "old", Name: "podlabel-old", Type: hns.IPSet, Values: []string{"10.0.1.9"}}))
	require.NoError(t, w.sim.PutSet(hns.SetPolicy{ID: "others-set", Name: "others", Type: hns.IPSet}))
	w.do("restart")
	dObjects(w)
	w.do("node 10.1.0.4", p, "apply", "calls SetPolicy/Remove=1")
	require.Len(t, w.sim.Sets(), len(w.dp.Dump().Sets)+1, "the others' set stays")
}

// dObjects tells a dataplane of dWorld's pods and namespaces.
func dObjects(w *world) {
	w.do("namespace x team=x", "namespace y kind=evil", "namespace z",
		"pod x/w1 10.0.0.1 app=web", "pod x/w2 10.0.0.2 app=web", "pod x/w3 10.0.0.3 app=web",
		"pod x/api 10.0.1.1 app=api remote", "pod x/db 10.0.1.2 app=db remote",
		"pod y/evil 10.0.1.3 app=api remote", "pod z/z 10.0.1.4 remote")
}
