package dataplane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// newbornQ is the second policy of newbornWorld.
const newbornQ = `policy x/q {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`

// newbornWorld has a pod whose endpoint was never written, and what a policy on it
// needs.
func newbornWorld(t *testing.T, change ...func(*dataplane.Config)) *world {
	t.Helper()
	w := newWorld(t, change...)
	w.do("namespace x", "node 10.1.0.4", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4 app=web",
		"pod x/api 10.0.1.5 app=api remote", "policy x/p "+webFromAPI, newbornQ)
	return w
}

// stranger is a packet that the policies of newbornWorld allow nobody.
const stranger = "trace 10.9.9.9 -> 10.0.0.4 TCP/80 ep in "

// writesTo notes the writes to an endpoint: the Ids of the rules of each.
func (w *world) writesTo(id string) *[][]string {
	var all [][]string
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before && isWrite(c.Op) && c.Target == id {
			var ids []string
			for _, a := range c.ACLs {
				ids = append(ids, a.ID)
			}
			all = append(all, ids)
		}
	})
	return &all
}

// blockAlone is what goes to an endpoint that is open after a write that failed.
var blockAlone = []string{"azure-acl-npm-node", "azure-acl-npm-block-in"}

// TestBlockComesFirst: whatever the first write of a new pod fails with, the next one
// is the block alone, in the same transaction.
func TestBlockComesFirst(t *testing.T) {
	for name, fault := range map[string]hnsfault.Fault{
		"refused":            {Code: 0x803B000D},
		"an unlisted answer": {Code: 0x803B7777},
		"E_FAIL":             {Code: 0x80004005},
		"broken off":         {Err: hns.ErrUnavailable},
		"the reply is lost":  {Mode: hnsfault.LoseReply, Err: hns.ErrUnavailable},
		"half of it is done": {Mode: hnsfault.Half, Err: hns.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newbornWorld(t)
			writes := w.writesTo("ep")
			fault.Op = "ACL/Add"
			w.sim.Inject(fault)
			_ = w.apply()
			w.do(stranger + "block")
			if fault.Mode == hnsfault.Refuse { // else the block may be there already
				require.Equal(t, blockAlone, (*writes)[1])
			}
			w.settle()
			w.do(stranger+"block", "trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in allow")
		})
	}
}

// TestBlockOfAnEndpointThatCannotBeRead: since its first write broke off no read
// succeeds. HNS takes the block all the same, once.
func TestBlockOfAnEndpointThatCannotBeRead(t *testing.T) {
	w := newbornWorld(t)
	writes := w.writesTo("ep")
	w.sim.Inject(hnsfault.Fault{Op: "Endpoint/Get", Target: "ep", Nth: 3, Times: -1, Code: 0x803B0031})
	w.sim.Inject(hnsfault.Fault{Op: "ACL/Add", Times: 3})
	_ = w.apply()
	w.do(stranger + "allow")
	for began := w.now; w.now.Sub(began) < 10*time.Minute; w.now = w.now.Add(max(w.report.Next(), time.Millisecond)) {
		_ = w.apply()
		if w.now.Sub(began) > 10*time.Second {
			w.do(stranger + "block")
		}
	}
	require.Len(t, *writes, 4, "three that failed, and no second block")
}

// TestLostBlockComesFirst: HNS loses the rules of a pod. The block is what comes
// back first, also when the rest is refused.
func TestLostBlockComesFirst(t *testing.T) {
	w := newbornWorld(t)
	w.do("apply", stranger+"block")
	writes := w.writesTo("ep")
	w.clear("ep")
	w.sim.RejectACL(func(a hns.ACL) bool { return a.LocalPorts == "443" })
	w.do("observe")
	_ = w.apply()
	w.do(stranger+"block", "trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in allow")
	require.Equal(t, blockAlone, (*writes)[1], "%v", *writes)
}

// TestGoneByAWriteOnly: HNS says of a write that the endpoint is gone, and goes on
// listing and showing it. The agent does not spin.
func TestGoneByAWriteOnly(t *testing.T) {
	w := newbornWorld(t)
	w.sim.Inject(hnsfault.Fault{Op: "ACL/Add", Times: -1, Err: &hns.OpError{Op: "ACL/Add", Kind: hns.KindEndpoint, ID: "ep", Err: hns.ErrNotFound}})
	rounds := 0
	for began := w.now; w.now.Sub(began) < time.Minute; w.now = w.now.Add(max(w.report.Next(), time.Millisecond)) {
		_ = w.apply()
		rounds++
	}
	require.Less(t, rounds, 130)
}
