package ipsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// denying is a world with the deny twins of two leaves, which a rule names; one of them
// has an address.
func denying(t *testing.T) *world {
	w := newWorld(t)
	for _, n := range []Name{leafA.Deny(), leafB.Deny()} {
		w.Hold(n, rule)
		w.Hold(n, Ref{RefActual, "ep"})
	}
	w.AddAddr(leafA.Deny(), addr1)
	w.apply()
	return w
}

// bothSides is denying with the allow sets in addition to their deny twins.
func bothSides(t *testing.T) *world {
	w := denying(t)
	for _, n := range []Name{leafA, leafB} {
		w.Hold(n, rule)
		w.Hold(n, Ref{RefActual, "ep"})
	}
	w.AddAddr(leafA, addr1)
	w.apply()
	return w
}

// whileStuck runs a test twice: with a set that HNS rejects, and with one whose outcome is unknown.
func whileStuck(t *testing.T, n Name, test func(t *testing.T, stick func(*world))) {
	t.Run("refused", func(t *testing.T) { test(t, func(w *world) { w.Reject(n) }) })
	t.Run("unknown", func(t *testing.T) { test(t, func(w *world) { w.Unknown(n) }) })
}

// A twin that cannot gain keeps the others from losing: whoever is to be denied is
// denied all the time.
func TestDenyTwinsGrowFirst(t *testing.T) {
	whileStuck(t, leafB.Deny(), func(t *testing.T, stick func(*world)) {
		w := denying(t)
		w.AddAddr(leafA.Deny(), addr3)
		w.apply()
		w.RemoveAddr(leafA.Deny(), addr1)
		w.RemoveAddr(leafA.Deny(), addr3)
		w.AddAddr(leafA.Deny(), addr2)
		w.AddAddr(leafB.Deny(), addr1)
		stick(w)
		same(t, `set  update  deny-podlabel-app:a  10.0.0.1 10.0.0.2`, w.Plan())
		require.True(t, w.HeldBack())
	})
}

// TestAllowWaitsForDeny: an address joins an allow set only after it is in every deny twin that it
// should be in, because a deny rule may come before the allow rule. Other addresses do not wait.
func TestAllowWaitsForDeny(t *testing.T) {
	whileStuck(t, leafB.Deny(), func(t *testing.T, stick func(*world)) {
		w := bothSides(t)
		w.AddAddr(leafB, addr2)
		w.AddAddr(leafB.Deny(), addr2)
		w.AddAddr(leafB, addr3)
		stick(w)
		same(t, `set  update  podlabel-app:b  10.0.0.10`, w.Plan())
		require.True(t, w.HeldBack())
		w.Release(leafB.Deny(), Ref{RefActual, "ep"}) // the rule has lost the condition
		same(t, `set  update  podlabel-app:b  10.0.0.2 10.0.0.10`, w.Plan())
		require.False(t, w.HeldBack())
	})
}

// TestDenyKeepsARefusedLeaf: a leaf that HNS rejects stays in a nested deny twin until no rule
// names that twin.
func TestDenyKeepsARefusedLeaf(t *testing.T) {
	w := newWorld(t)
	ep := Ref{RefActual, "ep"}
	w.Hold(nested.Deny(), rule)
	w.Hold(nested.Deny(), ep)
	w.AddMember(nested.Deny(), leafA.Deny())
	w.AddAddr(leafA.Deny(), addr1)
	w.AddAddr(leafA.Deny(), addr2)
	w.apply()
	w.RemoveAddr(leafA.Deny(), addr2)
	w.Reject(leafA.Deny())
	same(t, ``, w.Plan())
	require.True(t, w.HeldBack())
	w.Release(nested.Deny(), ep)
	same(t, `
		nest update  deny-nestedlabel-app:a:b  -> empty-emptyhashset`, w.Plan())
}

// TestDenyWaitsForAllow: an address leaves a deny twin only after it has left every allow set that
// it should leave.
func TestDenyWaitsForAllow(t *testing.T) {
	whileStuck(t, leafA, func(t *testing.T, stick func(*world)) {
		w := bothSides(t)
		w.AddAddr(leafA.Deny(), addr3)
		w.apply()
		for _, n := range []Name{leafA, leafA.Deny()} {
			w.RemoveAddr(n, addr1)
		}
		w.RemoveAddr(leafA.Deny(), addr3)
		stick(w)
		same(t, `set  update  deny-podlabel-app:a  10.0.0.1`, w.Plan())
		require.True(t, w.HeldBack())
		w.Release(leafA, Ref{RefActual, "ep"})
		same(t, `set  update  deny-podlabel-app:a`, w.Plan())
	})
}

// A leaf comes into a nested twin one request after leaves change: whoever is in it stays
// where he was until then.
func TestDenyTwinsWaitForANestedOne(t *testing.T) {
	w := denying(t)
	w.Hold(nested.Deny(), rule)
	w.Hold(nested.Deny(), Ref{RefActual, "ep"})
	w.apply()
	w.RemoveAddr(leafA.Deny(), addr1)
	w.AddMember(nested.Deny(), nsX.Deny())
	w.AddAddr(nsX.Deny(), addr1)
	require.True(t, w.HeldBack())
	same(t, `
		set  create  deny-ns-x  10.0.0.1
		--
		nest update  deny-nestedlabel-app:a:b  -> deny-ns-x empty-emptyhashset`, w.Plan())
	require.NoError(t, w.hns.run(w.Cache, w.Plan()))
	require.False(t, w.HeldBack())
	same(t, `
		set  update  deny-podlabel-app:a`, w.Plan())
}

// TestAwait: while an owner has outdated rules, an awaited leaf joins no nested allow set that these
// rules name, and leaves no nested deny twin that they name. Other leaves and sets do not wait.
func TestAwait(t *testing.T) {
	w := newWorld(t)
	ep, other := Ref{RefActual, "ep"}, Ref{RefActual, "other"}
	for _, n := range []Name{nested, nested.Deny(), spaces, spaces.Deny()} {
		w.Hold(n, rule)
		w.Hold(n, other)
	}
	w.Hold(nested, ep)
	w.Hold(nested.Deny(), ep)
	for _, n := range []Name{nested.Deny(), spaces.Deny()} {
		w.AddMember(n, nsX.Deny())
		w.AddMember(n, nsY.Deny())
	}
	w.apply()
	for _, n := range []Name{nested, spaces} {
		w.AddMember(n, nsX)
		w.AddMember(n, nsY)
		w.RemoveMember(n.Deny(), nsX.Deny())
		w.RemoveMember(n.Deny(), nsY.Deny())
	}
	w.See("ep", SeesActual, nsX)
	require.True(t, w.Awaited("ep"))
	require.False(t, w.Awaited("other"))
	require.NoError(t, w.hns.run(w.Cache, w.Plan()))
	same(t, ``, w.Plan())
	require.True(t, w.HeldBack())
	w.See("ep", SeesActual)
	same(t, `
		nest update  deny-nestedlabel-app:a:b  -> empty-emptyhashset
		nest update  nestedlabel-app:a:b  -> empty-emptyhashset ns-x ns-y`, w.Plan())
}
