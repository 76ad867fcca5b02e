package dataplane

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// activeWarnings is what warnings are about: of the state as it is, or of a copy.
type activeWarnings struct {
	node      string
	leftOut   map[ipsets.Name][]policy.Key // with the policies that need it
	endpoints endpoints.View
	objects   []state.Warning // of objects by themselves
	flapping  []drift.Subject
	again     map[ipsets.Name]state.Again // sets that HNS refuses or did not remove
	unremoved []ipsets.Name               // those that it refused to remove alone
	unwritten bool                        // sets could not be written or read
}

// activeWarnings returns what warnings are about now. It is valid until the
// core goes on.
func (d *core) activeWarnings() activeWarnings {
	again, unremoved := d.again()
	return activeWarnings{
		node:    d.cfg.Node,
		leftOut: d.desired.Needing(d.cache.Refused()), endpoints: d.endpoints.View(),
		objects: d.desired.Warnings(), flapping: d.drift.Flapping(d.clock),
		again: again, unremoved: unremoved, unwritten: d.sets.Tries > 0,
	}
}

// warnings lists them, sorted.
func (s activeWarnings) warnings() []state.Warning {
	out := slices.Clone(s.objects)
	for n, needing := range s.leftOut {
		for _, key := range needing {
			object, kind := desired.ObjectOf(key)
			out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf(
					"HNS refuses set %s%s: where the policy needs it, what it accepts is left out and each of its denies blocks everything of its direction, until the set changes, or HNS takes it", n, endpoints.InBrackets(s.again[n].Code))})
		}
		if len(needing) == 0 { // those of named ports are in no policy's list
			out = append(out, state.Warning{Object: n.String(), Kind: "Set", Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf("HNS refuses the set%s: what needs it is left out until it changes, or HNS takes it", endpoints.InBrackets(s.again[n].Code))})
		}
	}
	out = s.endpoints.Warn(out, s.node)
	for _, what := range s.flapping {
		out = append(out, s.ofFlapping(what))
	}
	for _, n := range s.unremoved {
		out = append(out, state.Warning{Object: n.String(), Kind: "Set", Reason: state.ReasonHNSRejected,
			Message: "HNS does not remove the set" + endpoints.InBrackets(s.again[n].Code) + ": nothing needs it; it is tried again"})
	}
	if s.unwritten {
		out = append(out, state.Warning{Object: s.node, Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "sets could not be written or read; they are retried"})
	}
	slices.SortFunc(out, func(a, b state.Warning) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

func (s activeWarnings) ofFlapping(what drift.Subject) state.Warning {
	w := state.Warning{Object: what.String(), Kind: "Set", Reason: state.ReasonForeignWrites, Message: "the set"}
	if what.Kind() == drift.ACL {
		w.Kind, w.Message = "Endpoint", fmt.Sprintf("rules on endpoint %s", what.Endpoint())
		if pod := s.endpoints.Pod(what.Endpoint()); pod != "" {
			w.Kind, w.Object = "Pod", pod
		}
	}
	w.Message = fmt.Sprintf("somebody else keeps changing %s: another program writes sets or rules with our prefixes (azure-npm, if it still runs on this node: remove it), "+
		"or HNS itself loses or changes them. Until that ends repair waits longer each time, up to %v", w.Message, backoff.LongestDamped)
	return w
}
