package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// The kinds of drift.
const (
	driftSet = "set"
	driftACL = "acl"
)

// subject is what somebody else can change: a set, or the rules of an endpoint.
type subject struct {
	set      ipsets.Name
	endpoint string // GUID; "" for a set
}

func (s subject) kind() string {
	if s.endpoint == "" {
		return driftSet
	}
	return driftACL
}

// String returns the name of the set or the id of the endpoint.
func (s subject) String() string {
	if s.kind() == driftSet {
		return s.set.String()
	}
	return s.endpoint
}

// drift is what somebody else changed of ours.
type drift struct {
	found, repaired map[string]uint64 // by kind
	troubles        map[subject]*trouble
	repairs         []state.Repair // since the last report
}

// trouble is one object with what somebody else did to it.
type trouble struct {
	backoff.Damping
	open  bool      // found, and not as it should be since
	wrote bool      // since it was found
	found string    // in a few words
	had   []hns.ACL // of an open endpoint: what had been there
}

func newDrift() drift {
	zero := func() map[string]uint64 { return map[string]uint64{driftSet: 0, driftACL: 0} }
	return drift{found: zero(), repaired: zero(), troubles: map[subject]*trouble{}}
}

// noteDrift takes that an object was found changed.
func (d *core) noteDrift(s subject, found string, had []hns.ACL) {
	t := d.drift.troubles[s]
	if t == nil {
		t = &trouble{}
		d.drift.troubles[s] = t
	}
	t.Flap(d.now, s.String())
	if !t.open {
		d.drift.found[s.kind()]++
		t.open, t.wrote, t.had = true, false, had
	}
	t.found = found
}

// foundSets takes what an observation shows of sets. A set that nothing
// needs is only removed some time, so whoever changes it or is faster has done
// us no harm; one that he makes has to be removed.
func (d *core) foundSets(drifted []ipsets.Drift) {
	for _, drift := range drifted {
		if (drift.Needed || drift.Appeared) && d.cache.Outstanding(drift.Name) {
			d.noteDrift(subject{set: drift.Name}, setInWords(drift), nil)
		}
	}
}

// foundACLs takes that a known endpoint was read, with these rules of ours.
// An update that it needs from now on is a repair. An endpoint without a pod is
// never written, so nothing is found there.
func (d *core) foundACLs(ep *endpoint, ours []hns.ACL) {
	if !ep.pending() {
		ep.repair = true
	}
	if acl.Same(ours, ep.actual) || !ep.updatable() {
		return
	}
	s, had := subject{endpoint: ep.id}, ep.actual
	if t := d.drift.troubles[s]; t != nil && t.open {
		had = t.had
	}
	if unknown, missing := acl.Diff(had, ours); len(unknown)+len(missing) > 0 {
		d.noteDrift(s, inWords("rule", len(missing), len(unknown), "unknown"), had)
	}
}

// noteWrite notes a write that was done, or that may have been.
func (d *core) noteWrite(s subject) {
	if t := d.drift.troubles[s]; t != nil {
		t.wrote = true
	}
}

// settleDrift ends a run: what is as it should be again counts as
// repaired, if it was written and not put back by somebody else or no longer
// desired. It costs the objects that had trouble of late.
func (d *core) settleDrift() {
	for s, t := range d.drift.troubles {
		ep := d.endpoints[s.endpoint]
		if t.open && !d.outstanding(s) {
			if t.wrote {
				d.drift.repaired[s.kind()]++
				d.drift.repairs = append(d.drift.repairs, state.Repair{Kind: s.kind(), Object: s.String(), Pod: d.pod(ep), Found: t.found})
			}
			t.open, t.had = false, nil
		}
		if !t.open && t.Count(d.now) == 0 || s.kind() == driftACL && ep == nil {
			delete(d.drift.troubles, s)
		}
	}
	slices.SortFunc(d.drift.repairs, func(a, b state.Repair) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
}

// outstanding reports whether there is something to write.
func (d *core) outstanding(s subject) bool {
	if s.kind() == driftSet {
		return d.cache.Outstanding(s.set)
	}
	ep := d.endpoints[s.endpoint]
	return ep != nil && ep.updatable() && (ep.pending() || !ep.known())
}

// pod returns the name of the pod that an endpoint belongs to, "" for
// none.
func (d *core) pod(ep *endpoint) string {
	if ep == nil {
		return ""
	}
	return d.podOf(ep.owner)
}

// podOf returns the name of the local pod with a UID, "" for none.
func (d *core) podOf(uid types.UID) string {
	if p := d.local[uid]; p != nil {
		return p.Key().String()
	}
	return ""
}

// setInWords says what somebody did to a set.
func setInWords(d ipsets.Drift) string {
	switch {
	case d.Gone:
		return "gone"
	case d.Appeared:
		return "made by somebody else"
	case d.Retyped:
		return "of another type"
	}
	return inWords("member", d.Missing, d.Added, "added")
}

// inWords is "2 members missing, 1 added".
func inWords(noun string, missing, others int, word string) string {
	var parts []string
	for _, part := range []struct {
		n    int
		word string
	}{{missing, "missing"}, {others, word}} {
		switch {
		case part.n == 0:
		case len(parts) > 0:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.word))
		case part.n == 1:
			parts = append(parts, fmt.Sprintf("1 %s %s", noun, part.word))
		default:
			parts = append(parts, fmt.Sprintf("%d %ss %s", part.n, noun, part.word))
		}
	}
	return strings.Join(parts, ", ")
}
