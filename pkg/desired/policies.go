package desired

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// policyState is a policy of either kind with its derived state. While it is idle (see activate) its
// Rules and Sets are nil; the other compiled fields never change.
type policyState struct {
	policy.Policy
	// np or cnp is the object, which is immutable.
	np        *networkingv1.NetworkPolicy
	cnp       *v1alpha2.ClusterNetworkPolicy
	namespace string // "" for a ClusterNetworkPolicy
	ruleCount int    // how many peers its Rules have, or had when active
	// namesPorts: a rule has a named port, whose number depends on pods.
	namesPorts bool
	selects    int // local pods that it selects, or may select
	active     bool
	// warnings are about parts of the policy that cannot be expressed.
	warnings []state.Warning
	// views are the named ports that its egress rules use.
	views map[acl.Reach][]*view
	// acls are the ACLs of a NetworkPolicy on every endpoint. They are nil while it is not rendered,
	// and if pods have different ones.
	acls []*acl.SourcedACL
	// huge: on every pod its ACLs are more than a pod may have.
	huge bool
}

// subjection is a policy that selects a local pod, or may.
type subjection struct {
	*policyState
	// maybe: the namespace of the pod is not known, so neither is whether the
	// ClusterNetworkPolicy selects it.
	maybe bool
}

func (s subjection) compare(o subjection) int { return s.Compare(&o.Policy) }

// newPolicyState returns the idle policy of one of two objects; nil if both are nil.
func newPolicyState(np *networkingv1.NetworkPolicy, cnp *v1alpha2.ClusterNetworkPolicy) *policyState {
	if np == nil && cnp == nil {
		return nil
	}
	ps := &policyState{np: np, cnp: cnp}
	if np != nil {
		ps.namespace = np.Namespace
	}
	ps.Policy = ps.compile()
	if len(ps.Problems) > 0 {
		ps.warnings = ps.problemWarnings()
	}
	for _, r := range ps.Rules {
		ps.ruleCount += len(r.Peers)
		ps.namesPorts = ps.namesPorts || slices.ContainsFunc(r.Ports, func(p policy.Port) bool { return p.Name != "" })
	}
	ps.Rules, ps.Sets = nil, nil
	return ps
}

// compile gives the object its meaning.
func (ps *policyState) compile() policy.Policy {
	if ps.np != nil {
		return policy.Compile(ps.np)
	}
	return policy.CompileCluster(ps.cnp)
}

// The kinds of policies in warnings.
const (
	policyKind        = "NetworkPolicy"
	clusterPolicyKind = "ClusterNetworkPolicy"
)

// ObjectOf returns how warnings call the policy of a key, and its kind.
func ObjectOf(key policy.Key) (object, kind string) {
	if name, is := key.Cluster(); is {
		return name, clusterPolicyKind
	}
	return key.String(), policyKind
}

// problemWarnings returns the warnings about parts of a policy that cannot be expressed: one for
// each reason, with the first example, because there may be thousands.
func (ps *policyState) problemWarnings() (out []state.Warning) {
	object, kind := ObjectOf(ps.Key)
	told := map[policy.Reason]bool{}
	for _, problem := range ps.Problems {
		if told[problem.Reason] {
			continue
		}
		told[problem.Reason] = true
		text := problem.Field + ": " + problem.Message
		if n := ps.Found[problem.Reason]; n > 1 {
			text += fmt.Sprintf(" (the first of %d in this policy)", n)
		}
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.Reason(problem.Reason), Message: text})
	}
	return out
}

// of returns the policies of one tier that select a pod, in order.
func (p *Placement) of(tier policy.Tier) []subjection {
	byTier := func(s subjection, tier policy.Tier) int { return cmp.Compare(s.Tier, tier) }
	from, _ := slices.BinarySearchFunc(p.selected, tier, byTier)
	to, _ := slices.BinarySearchFunc(p.selected, tier+1, byTier)
	return p.selected[from:to]
}

// Tiered reports whether a ClusterNetworkPolicy with rules selects the pod.
func (p *PodState) Tiered() bool {
	return p.Placement != nil && slices.ContainsFunc(p.selected, func(s subjection) bool { return s.Tier != policy.Namespaced && len(s.Rules) > 0 })
}

// stagePolicy replaces a policy; a nil one deletes it. It is idle until activate.
func (d *State) stagePolicy(key policy.Key, is *policyState) {
	if was := d.policies[key]; was != nil {
		delete(d.byNS[was.namespace], key)
		if len(d.byNS[was.namespace]) == 0 {
			delete(d.byNS, was.namespace)
		}
	}
	delete(d.problems, key)
	if delete(d.policies, key); is != nil {
		d.policies[key] = is
		if d.byNS[is.namespace] == nil {
			d.byNS[is.namespace] = map[policy.Key]*policyState{}
		}
		d.byNS[is.namespace][key] = is
		if len(is.warnings) > 0 {
			d.problems[key] = true
		}
	}
	_, cluster := key.Cluster()
	for _, p := range d.local {
		if cluster || p.Namespace == key.Namespace {
			d.reselect(p, key, is)
		}
	}
}

// subject reports whether a policy selects a local pod, or may. No policy selects a pod over its
// budget, which is closed anyway.
func (d *State) subject(ps *policyState, p *PodState) (s subjection, selects bool) {
	switch {
	case p.OverBudget != "" || !ps.Subject.Matches(p.Labels):
		return s, false
	case ps.Namespaces == nil:
		return subjection{policyState: ps}, ps.Key.Namespace == p.Namespace
	}
	labels, known := d.members.labels(p.Namespace)
	return subjection{ps, !known}, !known || ps.Namespaces.Matches(labels)
}

// reselect updates the policies that select a local pod after the policy of a key was replaced by
// is; nil deletes it. The pod's endpoints are rendered again if the policy selected the
// pod before or selects it now.
func (d *State) reselect(p *PodState, key policy.Key, is *policyState) {
	at := slices.IndexFunc(p.selected, func(s subjection) bool { return s.Key == key })
	if at >= 0 {
		d.count(p.selected[at].policyState, -1)
		p.selected = slices.Delete(p.selected, at, at+1)
	}
	s, selects := subjection{}, false
	if is != nil {
		s, selects = d.subject(is, p)
	}
	if selects {
		d.count(is, 1)
		to, _ := slices.BinarySearchFunc(p.selected, s, subjection.compare)
		p.selected = slices.Insert(p.selected, to, s)
	}
	if at >= 0 || selects {
		d.effects.Changed[p.Addr] = true
	}
}

// findSelecting finds the policies that select a local pod. If they changed, its endpoints are
// rendered again. Its cost is linear in the policies of the namespace and the ClusterNetworkPolicies,
// as few local pods change in one transaction, or all are new.
func (d *State) findSelecting(p *PodState) {
	var selected []subjection
	for _, namespace := range [...]string{"", p.Namespace} {
		for _, ps := range d.byNS[namespace] {
			if s, selects := d.subject(ps, p); selects {
				selected = append(selected, s)
			}
		}
	}
	slices.SortFunc(selected, subjection.compare)
	if !slices.Equal(selected, p.selected) {
		for _, s := range selected {
			d.count(s.policyState, 1)
		}
		d.deselect(p.Placement)
		p.selected = selected
		d.effects.Changed[p.Addr] = true
	}
}

// relabeledSubjects finds the policies of the local pods of a namespace whose object changed.
func (d *State) relabeledSubjects(namespace string) {
	for _, p := range d.local {
		if p.Namespace == namespace {
			d.findSelecting(p)
		}
	}
}

// renderUsers marks the endpoints of the pods that a user of a view selects. With tieredOnly it skips
// pods that no ClusterNetworkPolicy with rules selects.
func (d *State) renderUsers(v *view, tieredOnly bool) {
	for _, p := range d.local {
		uses := slices.ContainsFunc(p.selected, func(s subjection) bool { return v.users[s.Key] == s.policyState })
		if uses && (!tieredOnly || p.Tiered()) {
			d.effects.Changed[p.Addr] = true
		}
	}
}

// Count sets the numbers of objects.
func (d *State) Count(s *state.Stats) {
	s.Pods = -len(d.lost)
	for _, in := range d.members.pods {
		s.Pods += len(in)
	}
	s.ClusterPolicies = map[policy.Tier]int{}
	for _, ps := range d.policies {
		if ps.Tier == policy.Namespaced {
			s.Policies++
		} else {
			s.ClusterPolicies[ps.Tier]++
		}
	}
}

// A policy is active while it selects a pod of this node (ADR 19). Only then does it have rules,
// hold its sets and use named ports. An idle policy has only its text, the matcher of its subject
// and its warnings: its peers cost this node nothing, however many pods the cluster
// has.

// count adds more to the number of local pods that a policy selects.
func (d *State) count(ps *policyState, more int) {
	ps.selects += more
	if ps.active != (ps.selects > 0) {
		d.switched[ps] = struct{}{}
	}
}

// deselect ends the selection of a pod by all policies, because it is not on this node any more
// or has no address.
func (d *State) deselect(p *Placement) {
	for _, s := range p.selected {
		d.count(s.policyState, -1)
	}
	p.selected = nil
}

// activate makes policies active that select a local pod now, and makes policies idle that select
// none any more, for example because they were replaced. The new ones hold their sets, filled,
// before the others release theirs, and before any rule is rendered. It looks at the pods once for
// all new sets. Then it recomputes the numbers of named ports whose pods or namespaces
// changed.
func (d *State) activate() {
	var came, went []*policyState
	for ps := range d.switched {
		switch {
		case ps.selects > 0 && !ps.active:
			came = append(came, ps)
		case ps.selects == 0 && ps.active:
			went = append(went, ps)
		}
	}
	clear(d.switched)
	slices.SortFunc(came, func(a, b *policyState) int { return a.Compare(&b.Policy) })
	for _, ps := range came {
		d.notePolicy("activating", ps.Key)
		c := ps.compile()
		ps.Rules, ps.Sets, ps.active = c.Rules, c.Sets, true
		ref := ipsets.Ref{Kind: ipsets.RefSelector, Owner: ps.Key.String()}
		for _, def := range ps.Sets {
			if d.cache.Hold(def.Name, ref) {
				d.members.define(def)
			}
		}
	}
	if len(d.members.made) > 0 {
		d.members.fill()
	}
	for _, ps := range came {
		if ps.namesPorts {
			d.namedPorts.use(ps)
		}
	}
	for _, ps := range went {
		d.notePolicy("retiring", ps.Key)
		d.retire(ps)
	}
	if len(d.namedPorts.stale) > 0 {
		d.namedPorts.settle()
	}
}

// notePolicy notes the present work on a policy.
func (d *State) notePolicy(work string, key policy.Key) {
	if name, is := key.Cluster(); is {
		d.note(work, clusterPolicyKind, "", name)
	} else {
		d.note(work, policyKind, key.Namespace, key.Name)
	}
}

// retire makes a policy idle. It releases the sets that its successor does not mention; the
// others stay held by the same reference.
func (d *State) retire(ps *policyState) {
	if len(ps.views) > 0 {
		d.namedPorts.leave(ps)
	}
	successor := map[ipsets.Name]bool{}
	if is := d.policies[ps.Key]; is != nil && is != ps { // an idle policy has no sets
		for _, def := range is.Sets {
			successor[def.Name] = true
		}
	}
	var left []ipsets.Name
	for _, def := range ps.Sets {
		if !successor[def.Name] {
			left = append(left, def.Name)
		}
	}
	ps.Rules, ps.Sets, ps.acls, ps.huge, ps.active = nil, nil, nil, false, false
	d.Release(ipsets.Ref{Kind: ipsets.RefSelector, Owner: ps.Key.String()}, left...)
}

// Hold holds a set, and fills it if it was not there.
func (d *State) Hold(n ipsets.Name, ref ipsets.Ref) {
	if d.cache.Hold(n, ref) {
		def, _ := policy.Definition(n) // the definition of a named port has only the name
		def.Name = n
		d.members.define(def)
		d.members.fill()
	}
}

// Release releases sets, and drops the definitions of those without other references.
func (d *State) Release(ref ipsets.Ref, names ...ipsets.Name) {
	for _, n := range names {
		if !d.cache.Release(n, ref) {
			continue
		}
		delete(d.members.defs, n)
		if n.Kind() == ipsets.KindNamedPort {
			d.namedPorts.release(n)
		}
	}
}

// DefineOrphans defines the sets that only rules in HNS name, because the policy that mentioned them
// was deleted while no agent ran. They get members as if it still mentioned them, so they change
// together with the other sets of the same rules. The definition ends with the last reference.
func (d *State) DefineOrphans(orphans []ipsets.Name) {
	for _, n := range orphans {
		if n.Kind() == ipsets.KindNamedPort {
			d.defineUnused(n)
		} else if def, ok := policy.Definition(n); ok && d.ours(def) && d.cache.Define(n) {
			d.members.define(def)
		}
	}
	d.members.fill()
}

// defineUnused defines the set of a number of a named port that only endpoints name. The number
// counts as unused, as one that went out of use while endpoints named it.
func (d *State) defineUnused(n ipsets.Name) {
	set, ok := d.namedPorts.parse(n)
	if !ok || !d.cache.Define(n) {
		return
	}
	d.members.define(policy.SetDef{Name: n})
	for _, v := range d.namedPorts.byKey[set.portKey].views {
		d.renderUsers(v, false)
	}
}

// ours reports whether a set in HNS has the members that its name defines. A nested label set of
// the predecessor may have the same name as a set of WinNPM, and other members. The members of a set
// of WinNPM are fixed; only the permanent one may be missing.
func (d *State) ours(def policy.SetDef) bool {
	if def.Name.Kind() != ipsets.KindNestedLabel {
		return true
	}
	members, exact := d.cache.Contained(def.Name)
	slices.SortFunc(members, ipsets.Compare)
	return exact && slices.Equal(members, slices.SortedFunc(slices.Values(def.Members), ipsets.Compare))
}
