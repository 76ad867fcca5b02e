package ui

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// podEntry is a pod in a list.
type podEntry struct {
	Pod   string  `json:"pod"`
	Made  string  `json:"madeFor"` // the name of its owner, like the Deployment
	Addr  string  `json:"address,omitempty"`
	Local bool    `json:"local,omitempty"`
	State verdict `json:"state"`
}

// podDetail is a pod with its policies, endpoints and rules.
type podDetail struct {
	state.PodDump
	Made    string       `json:"madeFor"`
	State   verdict      `json:"state"`
	Ingress []string     `json:"ingress"` // policies that isolate it
	Egress  []string     `json:"egress"`
	Cluster []string     `json:"cluster"` // ClusterNetworkPolicies that select it
	Rules   []ruleEntry  `json:"rules"`
	Pending []pendingOne `json:"pending"`
}

// pendingOne is an outstanding update.
type pendingOne struct {
	Endpoint string `json:"endpoint,omitempty"`
	Attempts int    `json:"attempts"`
	Error    string `json:"error,omitempty"`
}

// ruleEntry is one of our ACLs at one endpoint.
type ruleEntry struct {
	Endpoint  string            `json:"endpoint"`
	Direction hns.DirectionType `json:"direction"`
	Action    hns.ActionType    `json:"action"`
	Priority  uint16            `json:"priority"`
	Policy    string            `json:"policy,omitempty"`
	ID        string            `json:"id"`
	Peer      string            `json:"peer"` // in words
	Ports     string            `json:"ports"`
	Applied   bool              `json:"applied"` // in HNS, as far as known
	Wanted    bool              `json:"wanted"`
}

func showPod(s *snapshot, r *http.Request) (any, error) {
	key := r.PathValue("namespace") + "/" + r.PathValue("name")
	d := s.dump
	i := slices.IndexFunc(d.Pods, func(p state.PodDump) bool { return p.Pod == key })
	if i < 0 {
		return nil, notFound("there is no pod %s", key)
	}
	out := podDetail{PodDump: d.Pods[i], Made: explain.Owner(&d.Pods[i]), State: s.findings().podState(&d.Pods[i]), Ingress: []string{}, Egress: []string{}, Cluster: []string{}, Rules: []ruleEntry{}, Pending: []pendingOne{}}
	out.policies(d, key)
	setNames := explain.SetNames{}
	for _, set := range d.Sets {
		setNames[set.ID] = set.Name
	}
	for _, ep := range d.Endpoints {
		if slices.Contains(out.Endpoints, ep.ID) {
			out.Rules = append(out.Rules, rulesOf(ep, setNames)...)
		}
	}
	for _, p := range d.Pending {
		if p.Pod == key {
			out.Pending = append(out.Pending, pendingOne{p.Endpoint, p.Attempts, p.Error})
		}
	}
	return out, nil
}

// policies sets the policies that select the pod.
func (out *podDetail) policies(d state.Dump, key string) {
	for _, p := range d.Policies {
		if !slices.Contains(p.Selected, key) {
			continue
		}
		if p.Ingress {
			out.Ingress = append(out.Ingress, p.Policy)
		}
		if p.Egress {
			out.Egress = append(out.Egress, p.Policy)
		}
	}
	for _, p := range d.ClusterPolicies {
		if slices.Contains(p.Selected, key) {
			out.Cluster = append(out.Cluster, p.Name)
		}
	}
}

// rulesOf lists the actual and desired rules of an endpoint, without foreign rules, by direction and
// priority.
func rulesOf(ep state.EndpointDump, setNames explain.SetNames) []ruleEntry {
	rules := map[hns.ACL]*ruleEntry{}
	entry := func(a hns.ACL) *ruleEntry {
		if rules[a] == nil {
			rules[a] = &ruleEntry{Endpoint: ep.ID, Direction: a.Direction, Action: a.Action, Priority: a.Priority, ID: a.ID, Policy: policyOf(a.ID), Peer: setNames.Peer(a), Ports: explain.PortsText(a)}
		}
		return rules[a]
	}
	for _, a := range ep.Applied {
		entry(a).Applied = true
	}
	for _, a := range ep.Wanted {
		entry(a).Wanted = true
	}
	var out []ruleEntry
	for _, e := range rules {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b ruleEntry) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Ports, b.Ports))
	})
	return out
}
