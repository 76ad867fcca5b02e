package endpoints

import (
	"github.com/winnpm/winnpm/pkg/policy"
)

// cause is why an endpoint is in the queue.
type cause struct {
	kind causeKind
	// policy of causePolicy; of causeNewborn and causePod the namespace alone, that of
	// the pod.
	policy policy.Key
}

type causeKind uint8

// The kinds, in the order in which they come of one turn. A newborn endpoint was
// never right for its pod, so it may be open.
const (
	causePolicy causeKind = iota
	causeNewborn
	causePod // or a namespace, or the node
	causeRepair
	causeRetry
)

func (ep *Endpoint) causeKind() causeKind {
	switch {
	case ep.tries > 0:
		return causeRetry
	case ep.repair:
		return causeRepair
	case ep.changedBy != policy.Key{}:
		return causePolicy
	case ep.newborn():
		return causeNewborn
	}
	return causePod
}

// cause returns why an endpoint is, or would be, in the queue.
func (d *State) cause(ep *Endpoint) cause {
	why := cause{kind: ep.causeKind()}
	switch why.kind {
	case causePolicy:
		why.policy = ep.changedBy
		if _, is := why.policy.Cluster(); is { // each of its endpoints has its turn among those of its namespace
			why.policy.Namespace = ""
			if p := d.desired.Local(ep.owner); p != nil {
				why.policy.Namespace = p.Namespace
			}
		}
	case causeNewborn, causePod:
		if p := d.desired.Local(ep.owner); p != nil {
			why.policy.Namespace = p.Namespace
		}
	case causeRepair, causeRetry: // no tenant's doing
	}
	return why
}
