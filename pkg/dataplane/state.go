package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// podState is a pod and what follows from it.
type podState struct {
	*Pod
	*placement // of a local pod; another one has none
	podGroup   *podGroup
	at         int // its place in its group
	// member: its address is its own beyond doubt, so the address is in the pod's sets.
	member bool
	// owner: its claim to the address is the strongest, so it is the pod that is meant
	// by it. home: endpoints of this node with the address are its, or may be.
	owner, home bool
	// early: its start was in the future when it came, and counts for nothing.
	early bool
}

// Claim says how strong the pod's claim to its address is.
func (p *podState) Claim() ipsets.Claim {
	c := ipsets.Claim{UID: string(p.UID), Namespace: p.Namespace, Local: p.Local, Deleting: p.Deleting, Started: p.Started, Created: p.Created}
	if p.early {
		c.Started = time.Time{}
	}
	return c
}

// inSets reports whether the pod is in sets. One that is over its budget is in none,
// whatever these say of pods without labels.
func (p *podState) inSets() bool { return p.member && p.OverBudget == "" }

// placement is what only a local pod has. All states of a pod share it.
type placement struct {
	// selected are the policies that select the pod, sorted.
	selected []*policyState
	// closed are those of them that have no room on it.
	closed []*policyState
	// clusters are the ClusterNetworkPolicies that select the pod, or may, in the order
	// in which they have their say.
	clusters []subjection
	// listed is when all endpoints had been listed since its CNI told of its sandbox, which
	// comes after its endpoint: zero until then.
	listed time.Time
	// search counts the pauses after which it had endpoints of others only, and says when the
	// next one ends, however often endpoints are listed for other pods.
	search backoff.Retry
	// placed is when it became local with this address.
	placed time.Time
	// start is replaced and never changed; nil: the pod was there before we were, or no
	// policy isolated it when its endpoint was first right.
	start *state.Start
}

// claims reports whether the pod lays claim to its address. Host-network pods
// share the node's address, finished ones have given theirs up, and some addresses
// are nobody's.
func (p *podState) claims() bool {
	return ipsets.Assignable(p.Addr) && !p.HostNetwork && !p.Finished
}

// policyState is a policy and what follows from it. While it is idle (see active.go)
// its Rules and Sets are nil; the rest of what was compiled never changes.
type policyState struct {
	policy.Compiled
	spec      *networkingv1.NetworkPolicySpec // of the object, which nobody changes
	ruleCount int                             // how many Rules it has, or had when active
	selects   int                             // local pods that it selects
	weighed   int                             // sets that count, found when it was compiled (budgetmembers.go)
	active    bool
	// warnings are about what the text of the policy has and cannot be expressed.
	warnings []state.Warning
	// views are the named ports that its egress rules use; unviewed is the first that
	// is over the budget.
	views    map[reach][]*view
	unviewed string
	// sized is what it comes to on every pod; nil when it is not known, or is something
	// else for each.
	sized *size
	// group is the policy on every endpoint; nil when it is not rendered, or is
	// another one for each pod.
	group *group
}

// namesPorts reports whether a rule has a named port, whose number follows from
// pods.
func (p *policyState) namesPorts() bool {
	for rules := range p.ByRule() {
		if len(namedPorts(rules[0].Ports)) > 0 {
			return true
		}
	}
	return false
}

// served returns the numbers of the policy's named ports within a reach.
func (p *policyState) served(at reach) []servedPort {
	var out []servedPort
	for _, v := range p.views[at] {
		out = append(out, v.served()...)
	}
	return out
}

// cluster reports whether it stands for a ClusterNetworkPolicy's named ports.
func (p *policyState) cluster() bool {
	_, is := state.ClusterName(p.Key)
	return is
}

// own is the namespace of the policy, "" for a ClusterNetworkPolicy.
func (p *policyState) own() string {
	if p.cluster() {
		return ""
	}
	return p.Key.Namespace
}

// ref is how the policy holds the sets that it mentions.
func (p *policyState) ref() ipsets.Ref {
	return ipsets.Ref{Kind: ipsets.RefSelector, Owner: p.Key.String()}
}

// endpoint is one local HNS endpoint. Applied state belongs to its GUID; the
// desired rules belong to the pod that owns its address.
type endpoint struct {
	id    string
	addrs []netip.Addr
	owner types.UID // of the pod that owns it now; "" when no pod does
	state endpointState

	// As last known: what a write is planned from. After a write with an unknown outcome
	// there is no version, actual is empty, and attempts has every list that may be there.
	version  hns.Version
	foreign  []hns.EndpointPolicy
	open     hns.Defaults // of foreign
	actual   []hns.ACL
	attempts [][]hns.ACL
	moved    uint64    // the write sequence when the actual view last changed
	seen     time.Time // when it was last read
	// exposed: it had its block, and a read shows that it has not. It is apart from state,
	// as it outlasts writes that break off, until the endpoint is right.
	exposed bool
	blind   int // blocks that were added since it was last read

	// bornFor is the first pod that owned it. Another one that gets the address
	// has inherited the endpoint, and its own may be yet to come.
	bornFor types.UID
	bornIn  string // its sandbox then, "" if the CNI did not tell
	// came is when it was first listed, zero when that was by a write.
	came time.Time
	// netns is the GUID of the HNS namespace that it was last seen in, "" for none.
	netns string
	// writtenFor is the pod for which the endpoint was last seen to be right. As
	// long as that is not its owner, the block rule goes first.
	writtenFor types.UID

	desired desiredRules
	refused map[policy.Key]refusal // what HNS refuses of a policy, or of the shared rules
	// distrusted: what was accepted before is refused now. It is apart from state, as it
	// outlasts what is desired, until HNS takes a write or refuses even the least.
	distrusted bool
	unlisted   int // answers in a row with a code that we do not know
	// compromises are what HNS refuses of a list of tiers, by rule; trial is how many
	// rules that are not there go into the next careful request.
	compromises map[hns.ACL]compromise
	trial       int

	turn     uint64 // in its subqueue of the queue of pending updates; 0: it is settled
	subqueue string // where it waits, while it does
	// changedBy is the policy whose change it waits for, the last of several.
	changedBy policy.Key
	changes   int        // conflicts since it was last right
	since     time.Time  // when it got there
	changedIn state.Span // the transactions that changed the desired rules, from the first that it waits for
	// repair: what is pending is only due to what somebody else did in HNS. It is apart
	// from state, as it is why the endpoint waits, and known before it does.
	repair  bool
	tries   int
	retryAt time.Time
	lastErr error

	holds map[ipsets.RefKind]map[ipsets.Name]bool // what it holds
}

// known reports whether the outcome of every write is known. Until it is, nothing
// is written: that would be blind.
func (ep *endpoint) known() bool { return ep.state.rules == rulesKnown }

// pending reports whether the endpoint waits in the queue of pending updates.
func (ep *endpoint) pending() bool { return ep.state.update != updateSettled }

// leave takes the endpoint out of the queue.
func (ep *endpoint) leave() {
	ep.turn = 0
	ep.state.settle()
}

// updatable reports whether rules are desired for the endpoint.
func (ep *endpoint) updatable() bool { return ep.owner != "" }

// list returns the complete list of our ACLs that should be on the endpoint,
// without what HNS refuses.
func (ep *endpoint) list(rejected func(ipsets.Name) bool) []hns.ACL {
	if ep.desired.tiers != nil {
		return ep.listTiers(ep.tierRules(rejected))
	}
	out := ep.shared()
	for _, g := range ep.desired.groups {
		if ep.refuses(g.key, g.digest) {
			continue
		}
		out = append(out, g.acls(rejected)...)
	}
	return out
}

// shared returns the rules that are no policy's own: node, block, and where the
// CNI gives none, the allow-all pair that any first ACL makes necessary. An endpoint that its
// CNI made closed has the pair also where no policy selects its pod. The slice is the caller's.
func (ep *endpoint) shared() []hns.ACL {
	if len(ep.desired.shared) == 0 && ep.desired.tiers == nil && (ep.owner == "" || !ep.open.Closed) {
		return nil
	}
	shared := ep.desired.shared
	if len(ep.refused) > 0 {
		shared = slices.DeleteFunc(slices.Clone(shared), func(a hns.ACL) bool { return ep.refuses(ruleKey(a), ruleDigest(a)) })
	}
	return slices.Concat(acl.MissingDefaults(ep.open, shared), shared)
}

// mayHave returns every list of ours that may be on the endpoint.
func (ep *endpoint) possible() [][]hns.ACL {
	if ep.known() {
		return [][]hns.ACL{ep.actual}
	}
	return ep.attempts
}

// refusal is what HNS refuses, alone: a policy's rules on an endpoint, or one of
// the rules that policies share. There is one for each of them at most.
type refusal struct {
	digest string // of what was refused: what is another one is not refused
	backoff.Again
}

// refuses reports whether HNS refuses these rules of an owner.
func (ep *endpoint) refuses(key policy.Key, digest string) bool {
	r, ok := ep.refused[key]
	return ok && r.digest == digest
}

// ruleKey is how a shared rule stands among the policies of an endpoint: no policy
// is without a namespace.
func ruleKey(a hns.ACL) policy.Key { return policy.Key{Name: a.ID} }

func ruleDigest(a hns.ACL) string { return fmt.Sprintln(a) }
