package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// text says what effects are: "all", "changed <address>", "check <address>", "came
// <pod>", in order.
func (e Effects) text() string {
	var out []string
	if e.All {
		out = append(out, "all")
	}
	for _, addr := range slices.SortedFunc(maps.Keys(e.Changed), netip.Addr.Compare) {
		out = append(out, fmt.Sprint("changed ", addr))
	}
	for _, addr := range slices.SortedFunc(maps.Keys(e.Check), netip.Addr.Compare) {
		out = append(out, fmt.Sprint("check ", addr))
	}
	for _, p := range e.Came {
		out = append(out, fmt.Sprint("came ", p.Key()))
	}
	return strings.Join(out, ", ")
}

// TestEffectsOfEvents: what each event asks of endpoints, and that nothing else is asked. Pod
// web runs here and policy p selects it, idle runs here and nothing selects it, far runs on
// another node.
func TestEffectsOfEvents(t *testing.T) {
	t.Parallel()
	const one, two, three = "10.0.0.1", "10.0.0.2", "10.0.0.3"
	pod := func(name, addr string, local bool, set ...func(*Pod)) func(*Objects) {
		p := Pod{Namespace: "x", Name: name, UID: types.UID("u-" + name), Local: local, Labels: map[string]string{"app": name}}
		if addr != "" {
			p.Addr = netip.MustParseAddr(addr)
		}
		for _, do := range set {
			do(&p)
		}
		return func(o *Objects) { o.SetPod(p) }
	}
	spec := func(name, text string) func(*Objects) {
		np := modelPolicy(t, policy.Key{Namespace: "x", Name: name}, text)
		return func(o *Objects) { o.SetPolicy(np) }
	}
	const selectsWeb = `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}]}], egress: [{ports: [{port: http}], to: [{podSelector: {}}]}]}`
	cluster := &v1alpha2.ClusterNetworkPolicy{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(
		`{metadata: {name: c}, spec: {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: a}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}`), cluster))
	team := func(name string) func(*Objects) {
		return func(o *Objects) { o.SetNamespace(Namespace{Name: "x", Labels: map[string]string{"team": name}}) }
	}
	serves := func(number uint16) func(*Pod) {
		return func(p *Pod) { p.Ports = []PodPort{{Name: "http", Protocol: policy.TCP, Number: number}} }
	}
	for name, tt := range map[string]struct {
		do   []func(*Objects) // the last one is looked at
		asks string
	}{
		"nothing new":                       {[]func(*Objects){pod("web", one, true)}, ""},
		"a pod that nothing selects comes":  {[]func(*Objects){pod("new", three, true)}, "changed 10.0.0.3, check 10.0.0.3, came x/new"},
		"a pod of another node":             {[]func(*Objects){pod("new", three, false)}, ""},
		"a label of a pod of another node":  {[]func(*Objects){pod("far", "10.0.1.1", false, func(p *Pod) { p.Labels = nil })}, ""},
		"a label that a policy selects":     {[]func(*Objects){pod("idle", two, true, func(p *Pod) { p.Labels["app"] = "web" })}, "changed 10.0.0.2"},
		"another address":                   {[]func(*Objects){pod("web", three, true)}, "changed 10.0.0.1, changed 10.0.0.3, check 10.0.0.1, check 10.0.0.3, came x/web"},
		"no address any more":               {[]func(*Objects){pod("web", "", true)}, "changed 10.0.0.1, check 10.0.0.1"},
		"another UID":                       {[]func(*Objects){pod("web", one, true, func(p *Pod) { p.UID = "u-other" })}, "changed 10.0.0.1, check 10.0.0.1, came x/web"},
		"another sandbox":                   {[]func(*Objects){pod("web", one, true, func(p *Pod) { p.Sandbox = state.Sandbox{ID: "s"} })}, "changed 10.0.0.1, check 10.0.0.1, came x/web"},
		"finished":                          {[]func(*Objects){pod("web", one, true, func(p *Pod) { p.Finished = true })}, "changed 10.0.0.1, check 10.0.0.1"},
		"gone":                              {[]func(*Objects){func(o *Objects) { o.DeletePod(PodKey{"x", "web"}) }}, "changed 10.0.0.1, check 10.0.0.1"},
		"a policy that selects nobody":      {[]func(*Objects){spec("q", `{podSelector: {matchLabels: {app: none}}}`)}, ""},
		"a policy on all":                   {[]func(*Objects){spec("q", `{podSelector: {}}`)}, "changed 10.0.0.1, changed 10.0.0.2"},
		"a policy that is edited":           {[]func(*Objects){spec("p", `{podSelector: {matchLabels: {app: web}}}`)}, "changed 10.0.0.1"},
		"a policy that selects another":     {[]func(*Objects){spec("p", `{podSelector: {matchLabels: {app: idle}}}`)}, "changed 10.0.0.1, changed 10.0.0.2"},
		"a policy that goes":                {[]func(*Objects){func(o *Objects) { o.DeletePolicy(policy.Key{Namespace: "x", Name: "p"}) }}, "changed 10.0.0.1"},
		"a namespace in a peer":             {[]func(*Objects){team("a")}, ""},
		"a new number of a named port":      {[]func(*Objects){pod("far", "10.0.1.1", false, serves(80))}, "changed 10.0.0.1"},
		"one more pod with a known number":  {[]func(*Objects){pod("far", "10.0.1.1", false, serves(80)), pod("more", "10.0.1.2", false, serves(80))}, ""},
		"a number that nobody serves":       {[]func(*Objects){pod("far", "10.0.1.1", false, serves(80)), pod("far", "10.0.1.1", false)}, ""},
		"the node's addresses":              {[]func(*Objects){func(o *Objects) { o.SetNodeAddrs([]netip.Addr{netip.MustParseAddr("192.168.0.1")}) }}, "all"},
		"a cluster policy of nobody":        {[]func(*Objects){team("b"), func(o *Objects) { o.SetClusterPolicy(cluster) }}, ""},
		"a cluster policy":                  {[]func(*Objects){team("a"), func(o *Objects) { o.SetClusterPolicy(cluster) }}, "changed 10.0.0.1, changed 10.0.0.2"},
		"a namespace that one selects then": {[]func(*Objects){func(o *Objects) { o.SetClusterPolicy(cluster) }, team("b"), team("a")}, "changed 10.0.0.1, changed 10.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestState()
			stage := func(do ...func(*Objects)) Effects {
				in := NewObjects()
				for _, do := range do {
					do(&in)
				}
				d.Stage(&in, time.Time{})
				return d.TakeEffects()
			}
			stage(pod("web", one, true), pod("idle", two, true), pod("far", "10.0.1.1", false), spec("p", selectsWeb))
			var came Effects
			for _, do := range tt.do {
				came = stage(do)
			}
			require.Equal(t, tt.asks, came.text())
			require.Equal(t, Effects{Changed: map[netip.Addr]bool{}, Check: map[netip.Addr]bool{}}, d.TakeEffects(), "they were taken")
		})
	}
}
