package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrDump is that a dump does not say what a Dataplane could go on from.
var ErrDump = errors.New("not the dump of a dataplane")

// View is what HNS has of our network: our sets, and the endpoints.
type View struct {
	Sets      []hns.SetPolicy
	Endpoints []hns.Endpoint
}

// Restore returns a Dataplane that goes on from a dump, with a view of HNS in
// place of that of the dump: Dump.View, or what is known since. It makes no call.
// Whatever else a Dataplane remembers begins anew: what it counted, who changed
// what of ours before, and which numbers of named ports were in use before. It fails
// with ErrDump.
func Restore(cfg Config, dump state.Dump, view View) (*Dataplane, error) {
	objects, err := desired.ObjectsOf(dump)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDump, err)
	}
	d := New(cfg)
	d.with(func(c *core) { c.restore(&Transaction{Objects: objects}, dump, view) })
	return d, nil
}

// restore makes a core that knows nothing go on from a dump, whose objects tx has.
func (d *core) restore(tx *Transaction, dump state.Dump, view View) {
	d.spellings.Restore(dump.Spellings, dump.OthersCut)
	generation := uint64(0)
	if n := len(dump.Reports); n > 0 {
		generation = dump.Reports[n-1].Generation
	}
	d.begin(generation, dump.Time)
	d.stage(tx)
	d.endpoints.RestoreListing(dump.Due)
	d.sets, d.fresh = backoff.Retry{Tries: dump.Due.Sets.Attempts, At: dump.Due.Sets.At}, dump.Due.Unread
	_ = d.takeSets(observedSets(view.Sets), nil) // nothing was known that could differ
	letGo := d.desired.RestoreOrphans(fedSets(dump.Sets))
	d.endpoints.RestoreRules(view.Endpoints, dump.Endpoints) // before the sets: what an endpoint may have makes them needed
	for _, s := range dump.Sets {
		d.restoreRefused(s)
	}
	d.leaveOut()
	d.renderDirty()
	d.endpoints.Restore(dump.Endpoints)
	letGo()
	for _, s := range dump.Sets { // now that what is held again is defined
		if n, ok := d.cache.Lookup(s.ID); ok {
			d.restoreSet(n, s)
		}
	}
	if !d.cfg.DryRun { // it ends no writing of sets
		d.awaitSets()
	}
	d.setWork.read = backoff.Retry{Tries: dump.Due.Spare.Attempts, At: dump.Due.Spare.At}
	d.endpoints.RestoreDue(dump.Due)
	d.endpoints.RestoreStarts(dump.Pods)
	d.endpoints.Report() // it was told
	d.progress.Rest()
}

// fedSets returns the orphaned sets that a dump says are fed.
func fedSets(sets []state.Set) (fed []ipsets.Name) {
	for _, s := range sets {
		if n, ok := ipsets.ParseName(s.Name, s.Type == string(hns.NestedIPSet)); ok && s.Fed {
			fed = append(fed, n)
		}
	}
	return fed
}

// restoreRefused leaves a set out that HNS refuses, and knows of one that may be there.
func (d *core) restoreRefused(s state.Set) {
	n, ok := d.cache.Lookup(s.ID)
	if !ok && s.Unknown { // nobody needs it, and it may be there
		if n, ok = ipsets.ParseName(s.Name, s.Type == string(hns.NestedIPSet)); ok {
			d.cache.Unknown(n)
		}
	}
	if ok && s.Refused {
		d.cache.Reject(n)
		d.leftOut[n] = true
	}
}

// restoreSet gives a set what a dump has of its last write, and since when
// it is as it is.
func (d *core) restoreSet(n ipsets.Name, s state.Set) {
	switch {
	case s.Unknown && s.Ending:
		d.cache.MaybeRemoved(n)
	case s.Unknown:
		d.cache.Unknown(n)
	}
	d.cache.RejectOnce(n, s.RefusedOnce)
	d.cache.Recall(n, s.Spare, s.Since)
	d.cache.Resume(n, s.Suspect, s.Clings)
	d.cache.Reread(n, s.Reading)
	d.restoreAgain(n, s)
}

// ViewOf returns what HNS has as far as a dump knows it. Of the others' policies
// these are the rules only; and of what is not known, what was last known. It
// fails with ErrDump.
func ViewOf(dump state.Dump) (View, error) {
	ids := make(map[string]string, len(dump.Sets))
	for _, s := range dump.Sets {
		ids[s.Name] = s.ID
	}
	empty := ipsets.Empty().String()
	if ids[empty] == "" {
		ids[empty] = ipsets.Empty().ID()
	}
	var v View
	for _, s := range dump.Sets {
		if s.InHNS {
			v.Sets = append(v.Sets, setOf(s, ids))
		}
	}
	for _, ed := range dump.Endpoints {
		addrs, err := desired.ParseAddrs(ed.Addrs)
		if err != nil {
			return View{}, fmt.Errorf("%w: endpoint %s: %w", ErrDump, ed.ID, err)
		}
		for _, text := range ed.IPv6 {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Is4() {
				return View{}, fmt.Errorf("%w: endpoint %s: %q is not an IPv6 address", ErrDump, ed.ID, text)
			}
			addrs = append(addrs, addr)
		}
		e := hns.Endpoint{ID: ed.ID, Addrs: addrs, Netns: ed.Next.Netns}
		for _, a := range slices.Concat(ed.ForeignRules, ed.Applied) {
			e.Policies = append(e.Policies, hns.NewACLPolicy(a))
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v, nil
}

// setOf returns a set as HNS has it; ids are those of all sets, by name.
func setOf(s state.Set, ids map[string]string) hns.SetPolicy {
	p := hns.SetPolicy{ID: s.ID, Name: cmp.Or(s.Called, s.Name), Type: hns.SetType(s.Type)}
	values := slices.Concat(s.Members, s.Surplus)
	if p.Type == hns.NestedIPSet {
		values = append(values, ipsets.Empty().String())
	}
	missing := make(map[string]bool, len(s.Missing))
	for _, text := range s.Missing {
		missing[text] = true
	}
	for _, text := range values {
		if missing[text] {
			continue
		}
		if id := ids[text]; p.Type == hns.NestedIPSet && id != "" {
			text = id
		}
		p.Values = append(p.Values, text)
	}
	return p
}
