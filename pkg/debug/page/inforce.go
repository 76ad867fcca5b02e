package page

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// verdict is whether a policy or a pod is as it should be, and why.
type verdict struct {
	Word inForce `json:"word"`
	Why  string  `json:"why,omitempty"`
}

// inForce is a word of verdict.
type inForce string

// What a policy or a pod may be. Only what is refused, left out or pending is trouble.
const (
	isInForce   inForce = "in force"
	isPending   inForce = "pending"
	isRefused   inForce = "refused"
	isLeftOut   inForce = "in part left out"
	isIdle      inForce = "idle here"      // it selects pods of other nodes only
	isUnused    inForce = "selects no pod" // of the cluster
	isElsewhere inForce = "another node's" // a pod
	isFree      inForce = "no policy"      // selects the pod
	isApart     inForce = "not filtered"   // a pod in its node's network, or that has finished
)

// trouble is what keeps pods and policies of a dump from being in force, by their names.
type trouble struct {
	refused, left, pending map[string]string // pods, and policies with their sort in front
	selects                map[string]bool   // pods that a policy selects
	byNamespace            map[string]map[string]*alike
}

// alike are the pods of one namespace with the same labels. A selector is asked about them
// once.
type alike struct {
	labels    labels.Set
	elsewhere int // pods of other nodes that have not finished
}

const policyMark = "policy "

// newTrouble reads a dump once.
func newTrouble(d *state.Dump) trouble {
	t := trouble{map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}, map[string]map[string]*alike{}}
	for i := range d.Pods {
		t.pod(&d.Pods[i])
	}
	for _, p := range d.Policies {
		for _, pod := range p.Selected {
			t.selects[pod] = true
		}
	}
	for _, p := range d.Pending {
		why := "its rules are not in HNS yet"
		if p.Endpoint == "" {
			why = "HNS has no endpoint for it yet"
		}
		if p.Error != "" {
			why += ": " + oneLine(p.Error)
		}
		t.pending[p.Pod] = why
	}
	for i := range d.Endpoints {
		t.endpoint(&d.Endpoints[i])
	}
	for _, w := range d.Warnings {
		t.warning(w)
	}
	for i := range d.Sets {
		t.set(&d.Sets[i])
	}
	return t
}

func (t *trouble) pod(p *state.Pod) {
	namespace, _, _ := strings.Cut(p.Pod, "/")
	if t.byNamespace[namespace] == nil {
		t.byNamespace[namespace] = map[string]*alike{}
	}
	set := labels.Set(p.Labels)
	group := t.byNamespace[namespace][set.String()]
	if group == nil {
		group = &alike{labels: set}
		t.byNamespace[namespace][set.String()] = group
	}
	if !p.Local && !p.Finished {
		group.elsewhere++
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// endpoint notes the policies whose rules it lacks, or has too many of.
func (t *trouble) endpoint(ep *state.Endpoint) {
	for _, key := range ep.Next.Refused {
		why := "HNS refuses its rules at " + ep.Pod
		t.refused[policyMark+key] = why
		if ep.Pod != "" {
			t.refused[ep.Pod] = "HNS refuses rules of " + strings.TrimPrefix(key, "/")
		}
	}
	if !ep.Known && ep.Pod != "" {
		t.pending[ep.Pod] = "what HNS has is not known; it is read again"
	}
	differ := map[hns.ACL]bool{}
	for _, a := range ep.Wanted {
		differ[a] = true
	}
	for _, a := range ep.Applied {
		if differ[a] {
			delete(differ, a)
		} else {
			differ[a] = true
		}
	}
	for a := range differ {
		if key, ok := state.PolicyOfACL(a.ID); ok {
			t.pending[policyMark+key.String()] = "its rules at " + ep.Pod + " are not in HNS as they should be yet"
		}
	}
}

// warning notes what an active warning says of a pod or policy.
func (t *trouble) warning(w state.Warning) {
	object := w.Object
	switch w.Kind {
	case "NetworkPolicy":
		object = policyMark + object
	case "Pod":
	default:
		return
	}
	into := t.left
	switch w.Reason {
	case state.ReasonHNSRejected:
		into = t.refused
	case state.ReasonHNSUnavailable, state.ReasonForeignWrites:
		into = t.pending
	default:
	}
	into[object] = oneLine(w.Message)
}

// set notes the policies that mention a set which HNS has not as it should be.
func (t *trouble) set(s *state.Set) {
	if !s.Unknown && len(s.Missing)+len(s.Surplus) == 0 {
		return
	}
	for _, h := range s.Holders {
		if key, ok := strings.CutPrefix(h, "selector "); ok && strings.Contains(key, "/") {
			if t.pending[policyMark+key] == "" {
				t.pending[policyMark+key] = "HNS has the set " + s.Name + " not as it should be yet"
			}
		}
	}
}

func (n *names) policyState(p *state.Policy) verdict {
	if why := n.refused[policyMark+p.Policy]; why != "" {
		return verdict{Word: isRefused, Why: why}
	}
	if len(p.Problems) > 0 {
		return verdict{Word: isLeftOut, Why: oneLine(p.Problems[0])}
	}
	if why := n.left[policyMark+p.Policy]; why != "" {
		return verdict{Word: isLeftOut, Why: why}
	}
	if why := n.pending[policyMark+p.Policy]; why != "" {
		return verdict{Word: isPending, Why: why}
	}
	for _, pod := range p.Selected {
		if why := n.pending[pod]; why != "" {
			return verdict{Word: isPending, Why: pod + ": " + why}
		}
	}
	if len(p.Selected) > 0 {
		return verdict{Word: isInForce}
	}
	if elsewhere := n.selectedElsewhere(p); elsewhere > 0 {
		return verdict{Word: isIdle, Why: fmt.Sprintf("it selects %d of other nodes, and none of this one", elsewhere)}
	}
	return verdict{Word: isUnused, Why: n.whyNobody(p)}
}

// whyNobody is why a policy selects no pod.
func (n *names) whyNobody(p *state.Policy) string {
	namespace, _, _ := strings.Cut(p.Policy, "/")
	if len(n.byNamespace[namespace]) == 0 {
		return "there is no pod in namespace " + namespace
	}
	return "no pod of namespace " + namespace + " has the labels that its podSelector asks for"
}

// selectedElsewhere counts the pods of other nodes that a policy selects.
func (n *names) selectedElsewhere(p *state.Policy) int {
	if p.Spec == nil {
		return 0
	}
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	if err != nil {
		return 0 // it is among the problems
	}
	namespace, _, _ := strings.Cut(p.Policy, "/")
	count := 0
	for _, group := range n.byNamespace[namespace] {
		if group.elsewhere > 0 && selector.Matches(group.labels) {
			count += group.elsewhere
		}
	}
	return count
}

func (n *names) podState(p *state.Pod) verdict {
	switch {
	case p.Finished:
		return verdict{Word: isApart, Why: "it has finished"}
	case p.HostNetwork:
		return verdict{Word: isApart, Why: "it is in its node's network"}
	case !p.Local:
		return verdict{Word: isElsewhere, Why: "the agent of its node knows"}
	case n.refused[p.Pod] != "":
		return verdict{Word: isRefused, Why: n.refused[p.Pod]}
	case n.left[p.Pod] != "":
		return verdict{Word: isLeftOut, Why: n.left[p.Pod]}
	case n.pending[p.Pod] != "":
		return verdict{Word: isPending, Why: n.pending[p.Pod]}
	case !n.selects[p.Pod]:
		return verdict{Word: isFree, Why: "no policy selects it: everybody may connect to it, and it to everybody"}
	}
	return verdict{Word: isInForce}
}
