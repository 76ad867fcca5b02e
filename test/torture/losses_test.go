package torture

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// begin returns the history of a scenario's text, played to its start.
func begin(t *testing.T, text string) *life {
	sc, err := parse(t.Name(), text)
	require.NoError(t, err)
	l := newLife(t, sc)
	for _, s := range sc.given {
		l.step(s)
	}
	return l
}

// goOn plays the rest.
func (l *life) goOn() {
	for _, s := range l.sc.steps {
		l.step(s)
	}
}

// passes asks about a packet of TCP at an endpoint.
func (l *life) passes(id string, dir hns.Direction, src, dst string, port uint16) bool {
	v, err := l.sim.Trace(id, dir, hnssim.Packet{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: 6, DstPort: port})
	require.NoError(l.t, err)
	return v.Allowed
}

// isRight fails unless the node is as a fresh process makes it.
func (l *life) isRight() {
	if d := l.differs(l.fresh()); d != "" {
		l.fail("%s", d)
	}
}

const oneSet = `
endpoint ep-1 10.0.0.1
endpoint ep-2 10.0.0.2
namespace x
pod x/w 10.0.0.1 app=web
pod x/api 10.0.1.1 app=api remote
policy x/good {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}
start
policy x/odd {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: odd}}}]}]}
pod x/new 10.0.0.2 app=db
pod x/api2 10.0.1.2 app=api remote
delete pod x/api
apply`

// TestEndpointMadeAnew: its pod runs on, and nobody says anything. It is found by the
// next enumeration, 5 s later at the latest.
func TestEndpointMadeAnew(t *testing.T) {
	t.Parallel()
	l := begin(t, oneSet)
	l.goOn()
	l.live(time.Minute)
	require.NoError(t, l.sim.DeleteEndpoint("ep-1"))
	require.NoError(t, l.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "anew", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	require.True(t, l.passes("anew", hns.In, "10.9.9.9", "10.0.0.1", 80))
	l.live(5*time.Second + 2*lookTakes)
	require.False(t, l.passes("anew", hns.In, "10.9.9.9", "10.0.0.1", 80))
	l.isRight()
}

// TestLossIsRepairedWithinAMinute: HNS forgets something and its process lives on.
func TestLossIsRepairedWithinAMinute(t *testing.T) {
	t.Parallel()
	isAPI := func(s hns.SetPolicy) bool { return s.Name == "podlabel-app:api" }
	noSet, noRule := func(hns.SetPolicy) bool { return false }, func(string, hns.ACL) bool { return false }
	for name, lose := range map[string]func(*life){
		"the rules of an endpoint": func(l *life) {
			l.sim.Forget("", "", noSet, func(on string, a hns.ACL) bool { return on == "ep-1" && a.Ours() })
		},
		"a set": func(l *life) { l.sim.Forget("", "", isAPI, noRule) },
		"everything": func(l *life) {
			l.sim.Forget("", "", func(s hns.SetPolicy) bool { return strings.HasPrefix(s.ID, hns.SetIDPrefix) }, func(_ string, a hns.ACL) bool { return a.Ours() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, oneSet)
			l.goOn()
			l.live(10 * time.Minute)
			lose(l)
			l.live(time.Minute + 2*time.Second)
			l.isRight()
		})
	}
}
