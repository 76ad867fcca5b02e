package dataplane_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// The universe of the random walks: small, so that addresses, labels, ports and
// sets meet again and again.
var (
	walkSpaces = []string{"x", "y", "z"}
	walkPods   = []string{"p", "q"} // in every namespace
	walkNodes  = []string{"10.1.0.4", "10.1.0.5"}
	// The first ones may have endpoints; every pod may have any.
	walkAddrs = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1", "10.0.1.2"}
	walkPorts = []uint16{80, 81}
)

// walkEndpoints is the number of addresses that endpoints have.
const walkEndpoints = 3

// walkSpecs are policies by template and variant; any namespace has any.
var walkSpecs = [][]string{
	{
		`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`,
		`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 81}]}]}`,
		`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web, ver: v1}}}, {podSelector: {}}]}]}`,
	},
	{
		`{podSelector: {}, policyTypes: [Ingress, Egress]}`,
		`{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}`,
		`{podSelector: {matchLabels: {ver: v1}}, policyTypes: [Ingress, Egress], egress: [{}]}`,
	},
	{
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}], ports: [{port: http}]}]}`,
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [a]}]}, podSelector: {matchLabels: {app: web}}}]}]}`,
		`{podSelector: {matchLabels: {app: api}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}], ports: [{port: http}, {port: 81}]}]}`,
	},
	{
		`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}, namespaceSelector: {matchLabels: {team: b}}}], ports: [{port: http}]}]}`,
		`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{port: http}]}]}`,
		`{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: http}, {port: 81}]}]}`,
	},
	{
		`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web, db]}]}}]}]}`,
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: ver, operator: In, values: [v1, v2]}]}}]}]}`,
		`{podSelector: {matchLabels: {app: api}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchExpressions: [{key: ver, operator: DoesNotExist}]}}]}]}`,
	},
	{
		`{podSelector: {}, policyTypes: [Ingress, Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.0.2/32]}}]}], ingress: [{ports: [{port: 80, endPort: 81}]}]}`,
		`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 10.0.1.1/32}}, {podSelector: {matchLabels: {ver: v2}}}]}]}`,
		`{podSelector: {matchLabels: {ver: v2}}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: a}}}], ports: [{port: 80}]}, {to: [{ipBlock: {cidr: 10.0.1.0/24}}]}]}`,
	},
}

// walkPolicy returns a policy of the universe.
func walkPolicy(ns string, template, variant int) *networkingv1.NetworkPolicy {
	np := &networkingv1.NetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte(walkSpecs[template][variant]), &np.Spec); err != nil {
		panic(err)
	}
	np.Namespace, np.Name = ns, fmt.Sprintf("t%d", template)
	return np
}

// walkTiers are ClusterNetworkPolicies by template and variant.
var walkTiers = [][]string{
	{
		`{tier: Admin, priority: 5, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: {matchLabels: {team: a}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}, {action: Deny, from: [{namespaces: {}}]}]}`,
		`{tier: Admin, priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: a}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}, {action: Accept, from: [{namespaces: {}}]}]}`,
		`{tier: Admin, priority: 7, subject: {namespaces: {matchLabels: {team: a}}}, ingress: [{action: Pass, from: [{namespaces: {}}]}, {action: Deny, from: [{namespaces: {}}]}]}`,
	},
	{
		`{tier: Admin, priority: 6, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}, egress: [{action: Deny, to: [{pods: {namespaceSelector: {matchLabels: {team: b}}, podSelector: {matchLabels: {app: api}}}}]}, {action: Accept, to: [{networks: [10.0.1.0/24]}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 81}}}}]}]}`,
		`{tier: Admin, priority: 4, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}, ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchExpressions: [{key: ver, operator: In, values: [v1, v2]}]}}}], protocols: [{destinationNamedPort: http}]}], egress: [{action: Accept, to: [{networks: [10.0.0.0/24]}]}, {action: Deny, to: [{networks: [10.0.0.0/16]}]}]}`,
		`{tier: Admin, priority: 6, subject: {namespaces: {}}, egress: [{action: Pass, to: [{networks: [10.0.0.0/24]}]}, {action: Deny, to: [{pods: {namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}}]}]}`,
	},
	{
		`{tier: Baseline, priority: 5, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {matchLabels: {team: a}}}]}, {action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 81}}}]}]}`,
		`{tier: Baseline, priority: 5, subject: {namespaces: {matchExpressions: [{key: team, operator: NotIn, values: [b]}]}}, ingress: [{action: Deny, from: [{namespaces: {}}]}], egress: [{action: Pass, to: [{namespaces: {matchLabels: {team: b}}}]}, {action: Deny, to: [{networks: [0.0.0.0/0]}]}]}`,
		`{tier: Baseline, priority: 3, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {}}]}]}`,
	},
}

// walkTier returns a ClusterNetworkPolicy of the universe.
func walkTier(template, variant int) *v1alpha2.ClusterNetworkPolicy {
	cnp := &v1alpha2.ClusterNetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte(walkTiers[template][variant]), &cnp.Spec); err != nil {
		panic(err)
	}
	cnp.Name = fmt.Sprintf("c%d", template)
	return cnp
}

// cluster is what the API server has: the truth that a walk changes.
type cluster struct {
	pods     map[desired.PodKey]desired.Pod
	spaces   map[string]desired.Namespace
	policies map[policy.Key]*networkingv1.NetworkPolicy
	tiers    map[string]*v1alpha2.ClusterNetworkPolicy
	nodes    []netip.Addr
	born     int // pods ever
	// faithful: a pod that has an address keeps it. untiered: it has no
	// ClusterNetworkPolicies.
	faithful, untiered bool
}

func newCluster() *cluster {
	return &cluster{
		pods:     map[desired.PodKey]desired.Pod{},
		spaces:   map[string]desired.Namespace{},
		policies: map[policy.Key]*networkingv1.NetworkPolicy{},
		tiers:    map[string]*v1alpha2.ClusterNetworkPolicy{},
	}
}

func (c *cluster) clone() *cluster {
	return &cluster{
		pods: maps.Clone(c.pods), spaces: maps.Clone(c.spaces),
		policies: maps.Clone(c.policies), tiers: maps.Clone(c.tiers), nodes: c.nodes, born: c.born, faithful: c.faithful, untiered: c.untiered,
	}
}

// all returns the transaction of a cold start.
func (c *cluster) all() *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for _, p := range c.pods {
		tx.SetPod(p)
	}
	for _, ns := range c.spaces {
		tx.SetNamespace(ns)
	}
	for _, np := range c.policies {
		tx.SetPolicy(np)
	}
	for _, cnp := range c.tiers {
		tx.SetClusterPolicy(cnp)
	}
	tx.SetNodeAddrs(c.nodes)
	return tx
}

// event is one changed object. Another pod of the same name is two: the old one
// goes and the new one comes.
type event struct {
	text  string
	apply func(*cluster, *dataplane.Transaction)
	// first is the end of the old pod, and alone the new one beside it.
	first, alone *event
}

// drawEvent draws a change of one object.
func (c *cluster) drawEvent(t *rapid.T) event {
	kinds := []string{"pod", "policy", "pod", "policy", "namespace", "namespace", "pod gone", "policy gone", "node", "tier", "tier", "tier gone"}
	if c.untiered {
		kinds = kinds[:9]
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "object")
	switch {
	case kind == "pod" || kind == "pod gone" && len(c.pods) == 0:
		return c.drawPod(t)
	case kind == "policy" || kind == "policy gone" && len(c.policies) == 0:
		ns := rapid.SampledFrom(walkSpaces).Draw(t, "namespace")
		template := rapid.IntRange(0, len(walkSpecs)-1).Draw(t, "template")
		variant := rapid.IntRange(0, len(walkSpecs[template])-1).Draw(t, "variant")
		np, text := walkPolicy(ns, template, variant), fmt.Sprintf("policy %s/t%d variant %d", ns, template, variant)
		if rapid.IntRange(0, 7).Draw(t, "over") == 7 {
			np.Spec, text = policy.Close(&np.Spec, "too much"), text+" over its budget"
		}
		return setPolicy(np, text)
	case kind == "tier" || kind == "tier gone" && len(c.tiers) == 0:
		template := rapid.IntRange(0, len(walkTiers)-1).Draw(t, "template")
		variant := rapid.IntRange(0, len(walkTiers[template])-1).Draw(t, "variant")
		return event{text: fmt.Sprintf("tier c%d variant %d", template, variant), apply: func(c *cluster, tx *dataplane.Transaction) {
			cnp := walkTier(template, variant)
			c.tiers[cnp.Name] = cnp
			tx.SetClusterPolicy(cnp)
		}}
	case kind == "tier gone":
		name := rapid.SampledFrom(sortedKeys(c.tiers)).Draw(t, "tier")
		return event{text: "delete tier " + name, apply: func(c *cluster, tx *dataplane.Transaction) {
			delete(c.tiers, name)
			tx.DeleteClusterPolicy(name)
		}}
	case kind == "policy gone":
		return deletePolicy(rapid.SampledFrom(sortedKeys(c.policies)).Draw(t, "policy"))
	case kind == "pod gone":
		return deletePod(rapid.SampledFrom(sortedKeys(c.pods)).Draw(t, "pod"))
	case kind == "namespace":
		return drawNamespace(t)
	default:
		var nodes []netip.Addr
		for _, a := range walkNodes[:rapid.IntRange(0, len(walkNodes)).Draw(t, "addresses")] {
			nodes = append(nodes, netip.MustParseAddr(a))
		}
		return event{text: fmt.Sprint("node ", nodes), apply: func(c *cluster, tx *dataplane.Transaction) {
			c.nodes = nodes
			tx.SetNodeAddrs(nodes)
		}}
	}
}

// sortedKeys returns the keys in order.
func sortedKeys[K comparable, V any](m map[K]V) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

func setPolicy(np *networkingv1.NetworkPolicy, text string) event {
	return event{text: text, apply: func(c *cluster, tx *dataplane.Transaction) {
		c.policies[policyKey(np)] = np
		tx.SetPolicy(np)
	}}
}

func deletePod(key desired.PodKey) event {
	return event{text: "delete pod " + key.String(), apply: func(c *cluster, tx *dataplane.Transaction) {
		delete(c.pods, key)
		tx.DeleteFinishedPod(key)
	}}
}

func deletePolicy(key policy.Key) event {
	return event{text: "delete policy " + key.String(), apply: func(c *cluster, tx *dataplane.Transaction) {
		delete(c.policies, key)
		tx.DeletePolicy(key)
	}}
}

func drawNamespace(t *rapid.T) event {
	ns := rapid.SampledFrom(walkSpaces).Draw(t, "namespace")
	team := rapid.SampledFrom([]string{"a", "b", "", "over", "gone"}).Draw(t, "team")
	return event{text: fmt.Sprintf("namespace %s team=%s", ns, team), apply: func(c *cluster, tx *dataplane.Transaction) {
		if team == "gone" {
			delete(c.spaces, ns)
			tx.DeleteNamespace(ns)
			return
		}
		c.spaces[ns] = desired.Namespace{Name: ns, Labels: map[string]string{"team": team}}
		switch team {
		case "":
			c.spaces[ns] = desired.Namespace{Name: ns}
		case "over":
			c.spaces[ns] = desired.Namespace{Name: ns, OverBudget: "too many labels"}
		}
		tx.SetNamespace(c.spaces[ns])
	}}
}

// drawPod draws a new pod, or a new state of one that is there.
func (c *cluster) drawPod(t *rapid.T) event {
	key := desired.PodKey{
		Namespace: rapid.SampledFrom(walkSpaces).Draw(t, "namespace"),
		Name:      rapid.SampledFrom(walkPods).Draw(t, "name"),
	}
	p, known := c.pods[key]
	born := c.born
	var first *event
	if !known || rapid.IntRange(0, 3).Draw(t, "anew") == 3 {
		if born++; known {
			gone := deletePod(key)
			first = &gone
		}
		p = desired.Pod{
			Namespace: key.Namespace, Name: key.Name, UID: types.UID(fmt.Sprint("uid-", born)),
			Local:   rapid.IntRange(0, 3).Draw(t, "remote") < 3,
			Started: walkTime(t, "started"), Created: walkTime(t, "created"),
		}
	}
	p.Labels = map[string]string{}
	for _, label := range []string{"app", "ver"} {
		values := map[string][]string{"app": {"web", "api", "db", ""}, "ver": {"", "v1", "v2"}}[label]
		if v := rapid.SampledFrom(values).Draw(t, label); v != "" {
			p.Labels[label] = v
		}
	}
	if !p.Addr.IsValid() || !c.faithful {
		p.Addr = netip.Addr{}
		if at := rapid.IntRange(0, len(walkAddrs)).Draw(t, "address"); at < len(walkAddrs) {
			p.Addr = netip.MustParseAddr(walkAddrs[at])
		}
	}
	p.Ports = nil
	if port := rapid.SampledFrom([]uint16{0, 80, 81}).Draw(t, "http"); port > 0 {
		p.Ports = []desired.PodPort{{Name: "http", Protocol: policy.TCP, Number: port}}
	}
	state := rapid.SampledFrom([]string{"", "", "", "", "deleting", "finished", "host", "over"}).Draw(t, "state")
	if p.OverBudget = ""; state == "over" {
		p.Labels, p.Ports, p.OverBudget = nil, nil, "too many labels"
	}
	if p.Local {
		p.Sandbox = rapid.SampledFrom(walkSandboxes).Draw(t, "sandbox")
	}
	p.Deleting, p.Finished, p.HostNetwork = state == "deleting", state == "finished", state == "host"
	e := setPod(p, born, state)
	if first != nil {
		beside := p
		beside.Name += "-beside"
		alone := setPod(beside, born, state)
		e.first, e.alone = first, &alone
	}
	return e
}

func setPod(p desired.Pod, born int, state string) event {
	text := fmt.Sprintf("pod %s %s %s local=%v %v %v %s%s", p.Key(), p.UID, p.Addr, p.Local, p.Labels, p.Ports, state, p.Sandbox.ID)
	return event{text: text, apply: func(c *cluster, tx *dataplane.Transaction) {
		c.born = max(c.born, born)
		c.pods[p.Key()] = p
		tx.SetPod(p)
	}}
}

// walkTime draws one of few times, so that claims to an address tie.
func walkTime(t *rapid.T, label string) time.Time {
	return time.Unix(1_600_000_000+int64(rapid.IntRange(0, 2).Draw(t, label)), 0)
}

func policyKey(np *networkingv1.NetworkPolicy) policy.Key {
	return policy.Key{Namespace: np.Namespace, Name: np.Name}
}

// walkSandboxes are what the CNI tells of pods in random worlds.
var walkSandboxes = []state.Sandbox{{}, {}, {ID: "s1"}, {ID: "s2", Netns: "n2"}}

// walkNetns are the HNS namespaces of endpoints in random worlds.
var walkNetns = []string{"", "", "n1", "N2"}
