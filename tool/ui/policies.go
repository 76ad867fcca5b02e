package ui

import (
	"net/http"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// The kinds of policies, as in manifests and warnings.
const (
	kindNetworkPolicy = "NetworkPolicy"
	kindClusterPolicy = "ClusterNetworkPolicy"
)

// anyPolicy is a NetworkPolicy or ClusterNetworkPolicy of a dump.
type anyPolicy struct {
	name               string // namespace/name, or the name of a ClusterNetworkPolicy
	selected, problems []string
	namespaced         *state.PolicyDump    // nil for a ClusterNetworkPolicy
	cluster            *state.ClusterPolicy // nil for a NetworkPolicy
}

// policiesOf lists all policies, ClusterNetworkPolicies first.
func policiesOf(d *state.Dump) []anyPolicy {
	out := make([]anyPolicy, 0, len(d.ClusterPolicies)+len(d.Policies))
	for i := range d.ClusterPolicies {
		p := &d.ClusterPolicies[i]
		out = append(out, anyPolicy{name: p.Name, selected: p.Selected, problems: p.Problems, cluster: p})
	}
	for i := range d.Policies {
		p := &d.Policies[i]
		out = append(out, anyPolicy{name: p.Policy, selected: p.Selected, problems: p.Problems, namespaced: p})
	}
	return out
}

func (p anyPolicy) kindWord() string {
	if p.cluster != nil {
		return kindClusterPolicy
	}
	return kindNetworkPolicy
}

// shownName returns the name of a policy for a key.
func shownName(key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	if cluster, is := (policy.Key{Namespace: namespace, Name: name}).Cluster(); is {
		return cluster
	}
	return key
}

// policyEntry is a policy in a list.
type policyEntry struct {
	Policy   string  `json:"policy"`
	Kind     string  `json:"kind"`
	Selected int     `json:"selected"` // local pods
	State    verdict `json:"state"`
}

// judge returns all policies with their states.
func (s *snapshot) judge() []policyEntry {
	n, idle := s.findings(), idleOf(&s.dump)
	all := policiesOf(&s.dump)
	out := make([]policyEntry, 0, len(all))
	for _, p := range all {
		out = append(out, policyEntry{p.name, p.kindWord(), len(p.selected), n.policyState(p, idle)})
	}
	return out
}

// policyDetail is a policy with the pods that it selects.
type policyDetail struct {
	policyEntry
	Ingress  bool     `json:"ingress"` // whether the policy isolates for ingress
	Egress   bool     `json:"egress"`
	Rules    int      `json:"rules"`
	Tier     string   `json:"tier,omitempty"`     // of a ClusterNetworkPolicy only
	Priority int32    `json:"priority,omitempty"` // of a ClusterNetworkPolicy only
	Pods     []string `json:"pods"`               // the local pods that it selects
	LeftOut  []string `json:"leftOut,omitempty"`
	YAML     string   `json:"yaml,omitempty"`
}

// showPolicy returns a NetworkPolicy, or, if the request has no namespace, a ClusterNetworkPolicy.
func showPolicy(s *snapshot, r *http.Request) (any, error) {
	name := strings.TrimPrefix(r.PathValue("namespace")+"/"+r.PathValue("name"), "/")
	all := policiesOf(&s.dump)
	i := slices.IndexFunc(all, func(p anyPolicy) bool { return p.name == name })
	if i < 0 {
		return nil, notFound("there is no policy %s", name)
	}
	p, n := all[i], s.findings()
	one := state.Dump{Pods: s.dump.Pods, Namespaces: s.dump.Namespaces}
	out := policyDetail{Pods: append([]string{}, p.selected...), LeftOut: p.problems, YAML: p.yaml()}
	if p.cluster != nil {
		one.ClusterPolicies = []state.ClusterPolicy{*p.cluster}
		if spec := p.cluster.Spec; spec != nil {
			out.Tier, out.Priority, out.Rules = string(spec.Tier), spec.Priority, len(spec.Ingress)+len(spec.Egress)
			out.Ingress, out.Egress = len(spec.Ingress) > 0, len(spec.Egress) > 0
		}
	} else {
		one.Policies = []state.PolicyDump{*p.namespaced}
		out.Ingress, out.Egress, out.Rules = p.namespaced.Ingress, p.namespaced.Egress, p.namespaced.Rules
	}
	out.policyEntry = policyEntry{p.name, p.kindWord(), len(p.selected), n.policyState(p, idleOf(&one))}
	return out, nil
}

// yaml returns a policy as a manifest. Its size is limited, as a dump has no spec of a policy over its
// budget.
func (p anyPolicy) yaml() string {
	out := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string `json:"metadata"`
		Spec            any               `json:"spec"`
	}{Metadata: map[string]string{"name": p.name}}
	switch {
	case p.cluster != nil && p.cluster.Spec != nil:
		out.APIVersion, out.Spec = v1alpha2.GroupVersion.String(), p.cluster.Spec
	case p.namespaced != nil && p.namespaced.Spec != nil:
		out.APIVersion, out.Spec = networkingv1.SchemeGroupVersion.String(), p.namespaced.Spec
		out.Metadata["namespace"], out.Metadata["name"], _ = strings.Cut(p.name, "/")
	default:
		return ""
	}
	out.Kind = p.kindWord()
	text, err := yaml.Marshal(out)
	if err != nil { // cannot happen: a spec marshals
		return err.Error()
	}
	return string(text)
}
