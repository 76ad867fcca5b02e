package page

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/explain"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// policyEntry is a policy in a list.
type policyEntry struct {
	Policy   string  `json:"policy"`
	Selected int     `json:"selected"` // local pods
	Problems int     `json:"problems"`
	State    verdict `json:"state"`
}

func listPolicies(s *snapshot, _ *http.Request) (any, error) {
	return struct {
		Policies []policyEntry `json:"policies"`
	}{s.derived.policies()}, nil
}

// policies lists the policies of the dump, once for all who ask.
func (d *derived) policies() []policyEntry {
	d.policiesOnce.Do(func() {
		n := d.names()
		d.policyList = make([]policyEntry, 0, len(d.dump.Policies))
		for i := range d.dump.Policies {
			p := &d.dump.Policies[i]
			d.policyList = append(d.policyList, policyEntry{p.Policy, len(p.Selected), len(p.Problems), n.policyState(p)})
		}
	})
	return d.policyList
}

// policyDetail is a policy with the sets that it mentions.
type policyDetail struct {
	state.Policy
	State verdict `json:"state"`
	// Elsewhere is how many pods of other nodes it selects, as the dump has them.
	Elsewhere int    `json:"elsewhere"`
	YAML      string `json:"yaml,omitempty"`
	Sets      []link `json:"sets"`
}

func showPolicy(s *snapshot, r *http.Request) (any, error) {
	key := r.PathValue("namespace") + "/" + r.PathValue("name")
	i := slices.IndexFunc(s.dump.Policies, func(p state.Policy) bool { return p.Policy == key })
	if i < 0 {
		return nil, notFound("there is no policy %s", key)
	}
	p := &s.dump.Policies[i]
	n := s.derived.names()
	out := policyDetail{Policy: *p, State: n.policyState(p), Elsewhere: n.selectedElsewhere(p), YAML: yamlOf(p), Sets: []link{}}
	out.Spec = nil // the text has it
	sets := map[string]link{}
	for _, set := range s.dump.Sets {
		if slices.Contains(set.Holders, ipsets.RefSelector.String()+" "+key) {
			sets[set.ID] = link{Kind: linkSet, Name: set.Name, ID: set.ID, Words: explain.SetWords(set.Name)}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sets)) {
		out.Sets = append(out.Sets, sets[id])
	}
	slices.SortStableFunc(out.Sets, func(a, b link) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// yamlOf writes a policy as its owner would apply it. A spec is as long as its budget in
// bytes lets it be: a policy over it has none in a dump.
func yamlOf(p *state.Policy) string {
	if p.Spec == nil {
		return ""
	}
	namespace, name, _ := strings.Cut(p.Policy, "/")
	text, err := yaml.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string               `json:"metadata"`
		Spec            *networkingv1.NetworkPolicySpec `json:"spec"`
	}{
		metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		map[string]string{"namespace": namespace, "name": name}, p.Spec,
	})
	if err != nil { // a spec can be written
		return err.Error()
	}
	return string(text)
}
