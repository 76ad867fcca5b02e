package ui

import (
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// verdict says whether a policy or a pod is in force, and why not.
type verdict struct {
	Word inForce `json:"word"`
	Why  string  `json:"why,omitempty"`
}

// inForce is the state of a policy or a pod.
type inForce string

// The states of policies and pods. Only isRefused, isLeftOut and isPending are problems.
const (
	isInForce   inForce = "in force"
	isPending   inForce = "pending"
	isRefused   inForce = "refused"
	isLeftOut   inForce = "in part left out"
	isIdle      inForce = "idle here"      // a policy that selects no pod of this node
	isUnused    inForce = "selects no pod" // a policy that selects no pod of the cluster
	isElsewhere inForce = "another node's" // a pod of another node
	isFree      inForce = "no policy"      // a pod that no policy selects
	isApart     inForce = "not filtered"   // a host-network pod, or a finished one
)

// findings are the reasons why pods and policies of a dump are not in force, by their names.
type findings struct {
	refused, left, pending map[string]string // by pod, or by policy with policyMark before the name
	selects                map[string]bool   // pods that a policy selects
}

const policyMark = "policy "

// newFindings computes the findings of a dump.
func newFindings(d *state.Dump) *findings {
	t := &findings{map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}}
	for _, p := range policiesOf(d) {
		for _, pod := range p.selected {
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

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// endpoint adds the policies whose rules differ between HNS and the desired state of an endpoint.
func (t *findings) endpoint(ep *state.EndpointDump) {
	for _, key := range ep.Next.Refused {
		t.refused[policyMark+shownName(key)] = "HNS rejects its rules at " + ep.Pod
		if ep.Pod != "" {
			t.refused[ep.Pod] = "HNS rejects rules of " + shownName(strings.TrimPrefix(key, "/"))
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
		if name := policyOf(a.ID); name != "" {
			t.pending[policyMark+name] = "its rules at " + ep.Pod + " are not up to date in HNS yet"
		}
		if ep.Pod != "" && t.pending[ep.Pod] == "" {
			t.pending[ep.Pod] = "its rules are not up to date in HNS yet"
		}
	}
}

// policyOf returns the name of the policy that a rule belongs to; "" if it belongs to none.
func policyOf(id string) string {
	return strings.TrimPrefix(explain.PolicyOf(id), kindClusterPolicy+"/")
}

// warning adds an active warning about a pod or policy.
func (t *findings) warning(w state.Warning) {
	object := w.Object
	switch w.Kind {
	case kindNetworkPolicy, kindClusterPolicy:
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

// set adds the policies whose rules name a set that differs from its desired state in HNS.
func (t *findings) set(s *state.SetDump) {
	if !s.Unknown && len(s.Missing)+len(s.Surplus) == 0 {
		return
	}
	for _, h := range s.Holders {
		key, ok := strings.CutPrefix(h, ipsets.RefSelector.String()+" ")
		if name := policyMark + shownName(key); ok && t.pending[name] == "" {
			t.pending[name] = "HNS has the set " + s.Name + " not as it should be yet"
		}
	}
}

// maxCompared limits the comparisons of selectors with pods for each namespace to find the policies that
// select nothing. They take some milliseconds.
const maxCompared = 100_000

// idleOf returns a reason for each policy that selects no pod of the cluster, by its name.
func idleOf(d *state.Dump) map[string]string {
	out := map[string]string{}
	for _, w := range explain.Idle(*d, maxCompared) {
		out[w.Object] = w.Message
	}
	return out
}

// NotInForce says why a policy of a dump is not in force on the dump's node. It returns "" if it is, or if
// the policy selects no pod there.
func NotInForce(d *state.Dump, p *state.PolicyDump) string {
	v := newFindings(d).policyState(anyPolicy{name: p.Policy, selected: p.Selected, problems: p.Problems, namespaced: p}, nil)
	if v.Word == isInForce || v.Word == isIdle {
		return ""
	}
	return v.Why
}

func (t *findings) policyState(p anyPolicy, idle map[string]string) verdict {
	if why := t.refused[policyMark+p.name]; why != "" {
		return verdict{Word: isRefused, Why: why}
	}
	if len(p.problems) > 0 {
		return verdict{Word: isLeftOut, Why: oneLine(p.problems[0])}
	}
	if why := t.left[policyMark+p.name]; why != "" {
		return verdict{Word: isLeftOut, Why: why}
	}
	if why := t.pending[policyMark+p.name]; why != "" {
		return verdict{Word: isPending, Why: why}
	}
	for _, pod := range p.selected {
		if why := t.pending[pod]; why != "" {
			return verdict{Word: isPending, Why: pod + ": " + why}
		}
	}
	if len(p.selected) > 0 {
		return verdict{Word: isInForce}
	}
	if why := idle[p.name]; why != "" {
		return verdict{Word: isUnused, Why: oneLine(why)}
	}
	return verdict{Word: isIdle, Why: "it selects no pod of this node"}
}

func (t *findings) podState(p *state.PodDump) verdict {
	switch {
	case p.Finished:
		return verdict{Word: isApart, Why: "it has finished"}
	case p.HostNetwork:
		return verdict{Word: isApart, Why: "it is in its node's network"}
	case !p.LostUntil.IsZero():
		return verdict{Word: isApart, Why: "its object was deleted before the pod had finished, so its containers may still run: its address stays denied for a while"}
	case !p.Local:
		return verdict{Word: isElsewhere, Why: "the agent of its node knows"}
	case t.refused[p.Pod] != "":
		return verdict{Word: isRefused, Why: t.refused[p.Pod]}
	case t.left[p.Pod] != "":
		return verdict{Word: isLeftOut, Why: t.left[p.Pod]}
	case t.pending[p.Pod] != "":
		return verdict{Word: isPending, Why: t.pending[p.Pod]}
	case !t.selects[p.Pod]:
		return verdict{Word: isFree, Why: "no policy selects it: everybody may connect to it, and it to everybody"}
	}
	return verdict{Word: isInForce}
}
