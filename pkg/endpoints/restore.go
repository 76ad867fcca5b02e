package endpoints

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// restoreCompromises is the inverse of dumpCompromises.
func (ep *Endpoint) restoreCompromises(next state.Next) {
	ep.trial = next.Trial
	for _, cd := range next.Compromises {
		ep.compromises[cd.Rule] = compromise{form: cd.Form, alone: cd.Alone, Again: backoff.Again{Code: cd.Code, Tries: cd.Attempts, At: cd.At}}
	}
}

// RestoreListing goes on with the enumeration of endpoints that a dump says is due.
func (d *State) RestoreListing(due state.Due) {
	d.listing = listing{retry: backoff.Retry{Tries: due.Listing.Attempts, At: due.Listing.At}, unsettled: due.Unsettled}
	if due.Listing.Error != "" {
		d.listing.err = errors.New(due.Listing.Error)
	}
}

// RestoreRules takes endpoints for read, and those for unknown of which a dump says so.
func (d *State) RestoreRules(view []hns.Endpoint, dumped []state.Endpoint) {
	for _, e := range view {
		d.render(d.read(e))
	}
	for _, ed := range dumped {
		if ep := d.byID[ed.ID]; ep != nil && !ed.Known {
			ep.actual, ep.version, ep.attempts = nil, "", ed.Maybe
			ep.state.brokeOff()
			d.pin(ep)
			d.hold(ep, ipsets.RefApplied, nil)
		}
	}
}

// Restore gives the endpoints what a dump has of them beside their rules.
func (d *State) Restore(dumped []state.Endpoint) {
	for _, ed := range dumped {
		if ep := d.byID[ed.ID]; ep != nil {
			d.restoreEndpoint(ep, ed)
		}
	}
}

// RestoreDue takes over what a dump has of what waits for its time.
func (d *State) RestoreDue(due state.Due) {
	clear(d.subqueues)
	for _, l := range due.Queues {
		d.subqueues[l.Name] = subqueue{l.Next, l.Order, l.Turn}
	}
	d.turn, d.readFrom = due.Turn, due.Read
	for _, nd := range due.New {
		n := &unreadEndpoint{came: nd.Came, Retry: backoff.Retry{Tries: nd.Attempts, At: nd.At}}
		if nd.Error != "" {
			n.err = told{text: nd.Error}
		}
		d.unread[nd.ID] = n
	}
}

// restoreEndpoint gives an endpoint what a dump has of it beside its rules.
func (d *State) restoreEndpoint(ep *Endpoint, ed state.Endpoint) {
	next := ed.Next
	refuse := func(key policy.Key, digest string) {
		if slices.Contains(next.Refused, key.String()) {
			a := next.Again[key.String()]
			ep.refused[key] = refusal{digest, backoff.Again{Code: a.Code, Tries: a.Attempts, At: a.At}}
		}
	}
	for _, g := range ep.desired.Groups {
		refuse(g.Key, g.Digest)
	}
	for _, a := range ep.desired.Shared {
		refuse(render.RuleKey(a), render.RuleDigest(a))
	}
	ep.restoreCompromises(next)
	ep.came, ep.netns = next.Came, next.Netns
	ep.bornFor, ep.bornIn, ep.writtenFor = types.UID(next.BornFor), next.BornIn, types.UID(next.WrittenFor)
	if ed.Known {
		ep.version = next.Version
	}
	d.Queue(ep)
	ep.writtenFor = types.UID(next.WrittenFor)
	ep.retryAt, ep.distrusted, ep.repair, ep.conflicts = next.Due, next.Distrusted, next.Repair, next.Conflicts
	ep.unlisted, ep.exposed, ep.blind = next.Unlisted, next.Exposed, next.Blind
	ep.tries, ep.lastErr = next.Attempts, nil
	if next.Error != "" {
		ep.lastErr = told{next.Error, next.Invalid, next.ForSets}
	}
	if ep.Pending() || next.Turn > 0 { // one that failed and turned out right is there until its turn
		d.enter(ep, next.Queue)
		ep.since, ep.turn = ed.Since, max(next.Turn, 1)
		ep.state.join()
		if ns, name, ok := strings.Cut(next.ChangedBy, "/"); ok {
			ep.changedBy = policy.Key{Namespace: ns, Name: name}
		}
	}
	ep.state.recall(next)
}

// told is an error that is known from a dump.
type told struct {
	text             string
	invalid, forSets bool
}

// Error implements error.
func (t told) Error() string { return t.text }

// Is tells the classes that matter: for a warning, and for who is woken when sets may be
// written.
func (t told) Is(target error) bool {
	return t.invalid && target == hns.ErrInvalid || t.forSets && target == ErrSetsNotReady
}
