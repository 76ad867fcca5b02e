package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// activeWarnings is what warnings are about: of the state as it is, or of a copy.
type activeWarnings struct {
	node       string
	problems   iter.Seq[*policyState]       // with something left out
	leftOut    map[ipsets.Name][]policy.Key // with the policies that need it
	endpoints  map[string]*endpoint
	podOf      func(types.UID) string // "" for none
	over       []state.Warning        // of what is over a budget
	clusters   []state.Warning        // of what the texts of ClusterNetworkPolicies have
	flapping   []drift.Subject
	refusals   setWarnings
	addresses  []state.Warning  // of local pods whose address is contested, or nobody's
	unread     map[string]error // endpoints that are enumerated and were never read, and why
	unwritten  bool             // sets could not be written or read
	listingErr error            // of the last listing
}

// activeWarnings returns what warnings are about now. It is valid until the
// core goes on.
func (d *core) activeWarnings() activeWarnings {
	return activeWarnings{
		node: d.cfg.Node,
		problems: func(yield func(*policyState) bool) {
			for key := range d.problems {
				if !yield(d.policies[key]) {
					return
				}
			}
		},
		leftOut: d.leftOutOf(), endpoints: d.endpoints,
		podOf: d.podOf, over: d.overBudget(), clusters: d.clusterWarnings(), flapping: d.drift.Flapping(d.clock),
		refusals: d.setWarnings(), addresses: d.addressWarnings(), unread: d.unreadErrs(), unwritten: d.sets.Tries > 0, listingErr: d.listing.err,
	}
}

// overBudget returns a warning for each kind and namespace that has objects over a
// budget, and for each policy whose named ports, ACLs on a pod or members are.
func (d *core) overBudget() []state.Warning {
	out := slices.AppendSeq(d.members.over.warnings(), maps.Values(d.namedPorts.over))
	return slices.Concat(out, d.closedWarnings(), d.crowded(), d.tierWarnings())
}

// warnings lists them, sorted.
func (s activeWarnings) warnings() []state.Warning {
	out := slices.Concat(s.over, s.addresses, s.clusters)
	for ps := range s.problems {
		out = append(out, ps.warnings...)
	}
	for n, needing := range s.leftOut {
		for _, key := range needing {
			object, kind := objectOf(key)
			out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf("HNS refuses set %s%s: what needs it is %s until it changes, or HNS takes it", n, s.refusals.code(n), insteadOfSet(key))})
		}
		if len(needing) == 0 { // those of named ports are in no policy's list
			out = append(out, state.Warning{Object: n.String(), Kind: "Set", Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf("HNS refuses the set%s: what needs it is left out until it changes, or HNS takes it", s.refusals.code(n))})
		}
	}
	for _, ep := range s.endpoints {
		out = append(out, s.ofEndpoint(ep)...)
	}
	for _, what := range s.flapping {
		out = append(out, s.ofFlapping(what))
	}
	for id, err := range s.unread {
		out = append(out, state.Warning{Object: id, Kind: "Endpoint", Reason: state.ReasonHNSUnavailable,
			Message: fmt.Sprintf("HNS lists the endpoint and does not show it, so a pod may be without rules: %s", oneLine(err))})
	}
	out = append(out, s.refusals.ofRemovals()...)
	if s.unwritten {
		out = append(out, state.Warning{Object: s.node, Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "sets could not be written or read; they are retried"})
	}
	if s.listingErr != nil {
		out = append(out, state.Warning{Object: s.node, Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: oneLine(s.listingErr)})
	}
	slices.SortFunc(out, func(a, b state.Warning) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

// leftOutOf returns the sets that are left out, each with the active policies
// that mention it, or a set that contains it.
func (d *core) leftOutOf() map[ipsets.Name][]policy.Key {
	if len(d.leftOut) == 0 {
		return nil
	}
	out := make(map[ipsets.Name][]policy.Key, len(d.leftOut))
	for n := range d.leftOut {
		out[n] = nil
		for _, p := range d.local {
			for _, ps := range p.selected {
				if !slices.Contains(out[n], ps.Key) && d.needs(ps.Sets, n) {
					out[n] = append(out[n], ps.Key)
				}
			}
			for _, s := range p.clusters {
				if key := state.ClusterKey(s.policy.Name); !slices.Contains(out[n], key) && d.needs(s.policy.Sets, n) {
					out[n] = append(out[n], key)
				}
			}
		}
	}
	return out
}

// needs reports whether a set is among definitions, or in one of them.
func (d *core) needs(defs []policy.SetDef, n ipsets.Name) bool {
	return slices.ContainsFunc(defs, func(def policy.SetDef) bool {
		return def.Name == n || def.Name.Nested() && d.cache.HasMember(def.Name, n)
	})
}

// insteadOfSet says what becomes of the rules of a policy that need a set which HNS
// refuses.
func insteadOfSet(key policy.Key) string {
	if _, is := state.ClusterName(key); is {
		return "left out where it accepts, and where it denies matches every peer,"
	}
	return "left out"
}

func (s activeWarnings) ofEndpoint(ep *endpoint) []state.Warning {
	var out []state.Warning
	for key, ref := range ep.refused {
		switch {
		case !ep.desired.has(key, ref.digest):
		case key.Namespace == "":
			out = append(out, s.onEndpoint(ep, state.ReasonHNSRejected,
				fmt.Sprintf("HNS refuses rule %s on endpoint %s%s: it is left out there, and tried again", key.Name, ep.id, inBrackets(ref.Code))))
		default:
			out = append(out, state.Warning{Object: key.String(), Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf("HNS refuses its rules on endpoint %s%s: they are left out there until they change or HNS takes them; it is asked again", ep.id, inBrackets(ref.Code))})
		}
	}
	if len(ep.compromises) > 0 && ep.desired.tiers != nil { // here, as the function's stack is large
		out = append(out, s.compromises(ep)...)
	}
	if ep.lastErr != nil {
		w := s.onEndpoint(ep, state.ReasonHNSUnavailable, oneLine(ep.lastErr))
		if errors.Is(ep.lastErr, hns.ErrInvalid) {
			w.Reason = state.ReasonHNSRejected
		}
		out = append(out, w)
	}
	return out
}

// compromises tells of the rules of a list of tiers that HNS refuses: one warning for
// each policy, with the code of one of them.
func (s activeWarnings) compromises(ep *endpoint) (out []state.Warning) {
	refused, codes := map[policy.Key]int{}, map[policy.Key]uint32{}
	seen := map[hns.ACL]bool{}
	for _, r := range ep.desired.tiers.rules {
		c, is := ep.compromises[condition(r.acl)]
		if is && !seen[r.acl] {
			seen[r.acl] = true
			refused[r.owner()]++
			codes[r.owner()] = max(codes[r.owner()], c.Code)
		}
	}
	for _, a := range ep.desired.shared {
		if c, is := ep.compromises[condition(a)]; is {
			out = append(out, s.onEndpoint(ep, state.ReasonHNSRejected,
				fmt.Sprintf("HNS refuses rule %s on endpoint %s%s: it is left out there, and tried again", a.ID, ep.id, inBrackets(c.Code))))
		}
	}
	for key, n := range refused {
		object, kind := objectOf(key)
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonHNSRejected, Message: fmt.Sprintf(
			"HNS refuses %d of its rules on endpoint %s%s: there those that accept are left out, and those that deny match more, until they change or HNS takes them; it is asked again",
			n, ep.id, inBrackets(codes[key]))})
	}
	return out
}

// onEndpoint returns a warning about an endpoint, or the pod that owns it.
func (s activeWarnings) onEndpoint(ep *endpoint, reason state.Reason, message string) state.Warning {
	if pod := s.podOf(ep.owner); pod != "" {
		return state.Warning{Object: pod, Kind: "Pod", Reason: reason, Message: message}
	}
	return state.Warning{Object: ep.id, Kind: "Endpoint", Reason: reason, Message: message}
}

func (s activeWarnings) ofFlapping(what drift.Subject) state.Warning {
	w := state.Warning{Object: what.String(), Kind: "Set", Reason: state.ReasonForeignWrites, Message: "the set"}
	if what.Kind() == drift.ACL {
		w.Kind, w.Message = "Endpoint", fmt.Sprintf("rules on endpoint %s", what.Endpoint())
		if ep := s.endpoints[what.Endpoint()]; ep != nil && s.podOf(ep.owner) != "" {
			w.Kind, w.Object = "Pod", s.podOf(ep.owner)
		}
	}
	w.Message = fmt.Sprintf("somebody else keeps changing %s: another program writes sets or rules with our prefixes (azure-npm, if it still runs on this node: remove it), "+
		"or HNS itself loses or changes them. Until that ends repair waits longer each time, up to %v", w.Message, backoff.LongestDamped)
	return w
}

func oneLine(err error) string { return fmt.Sprintf("%.300s; it is retried", err.Error()) }
