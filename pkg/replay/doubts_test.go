package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// TestManyDoubts: a recording in which write after write of one endpoint fails, and rules are
// added between, costs no product of both, and what is read then is not compared, which is said.
func TestManyDoubts(t *testing.T) {
	acl := func(i int) []hns.ACL {
		return []hns.ACL{{ID: fmt.Sprintf("%sx.p%d", hns.ACLIDPrefix, i), Action: hns.Allow, Direction: hns.In, Priority: 222}}
	}
	p, l := reader()
	p.world.setsRead = true // or nothing would be judged
	s, add := subject{endpoint: "a"}, asked{hns.Request{Op: hns.OpACLAdd, Endpoint: "a"}}
	require.False(t, p.unjudged(add))
	for i := range mostDoubts {
		p.world.doubted(s, doubt{rules: acl(i)})
	}
	require.Len(t, p.world.doubts[s], mostDoubts)
	require.False(t, p.world.crowded[s])
	for i := range 100 {
		p.world.doubted(s, doubt{rules: acl(i)})
		p.world.do(asked{hns.Request{Op: hns.OpACLAdd, Endpoint: "a", ACLs: acl(i)}}, time.Time{})
		require.Empty(t, p.world.doubts[s])
		require.True(t, p.world.crowded[s], "an Add rewrites nothing")
	}
	require.True(t, p.unjudged(add))
	p.rulesDiffer(l, &recorder.Call{}, s, nil, acl(7), true)
	require.Len(t, l.out.Findings, 1)
	require.Equal(t, Note, l.out.Findings[0].Kind)
	require.Equal(t, "a is not compared: more than 16 writes of it had failed and may have been done", l.out.Findings[0].Text)

	set := subject{set: "azure-npm-1"}
	p.world.crowded[set] = true
	p.setDiffers(l, &recorder.Call{}, hns.SetPolicy{}, hns.SetPolicy{ID: set.set, Name: "ns-x", Type: hns.IPSet}, true)
	require.Len(t, l.out.Findings, 2)
	require.Equal(t, Note, l.out.Findings[1].Kind)

	p.world.settled(s)
	require.Empty(t, p.world.crowded[s], "it was read")
	p.world.crowded[s] = true
	p.world.do(asked{hns.Request{Op: hns.OpACLUpdate, Endpoint: "a"}}, time.Time{})
	require.Empty(t, p.world.crowded[s], "everything was written anew")
}
