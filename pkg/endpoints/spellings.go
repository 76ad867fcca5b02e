package endpoints

import (
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// maxSpellings bounds the learned spellings, as each rule of a tenant may have its own. Beyond
// that, an object is written again after longer and longer pauses, as one that another program
// keeps changing.
const maxSpellings = 1024

// Spellings has the learned forms in which HNS shows rules and sets that it was sent. The zero
// value has none.
type Spellings struct {
	rules map[hns.ACL]hns.ACL  // shown → sent, both canonical
	list  []state.SpellingSeen // in the order in which they were learned
	told  int                  // how many of list reports had
	cut   bool                 // ACLs of other programs are sent cut, because HNS refused them as it shows them
}

// note records a spelling, which one report has. A set gets a new spelling with every change,
// and only the first is reported.
func (l *Spellings) note(s state.SpellingSeen) {
	list := l.list
	if s.Kind == driftSet {
		same := func(o state.SpellingSeen) bool { return o.Kind == s.Kind && o.Object == s.Object }
		if at := slices.IndexFunc(list, same); at >= 0 {
			list[at] = s
			return
		}
	}
	if len(list) < maxSpellings {
		l.list = append(list, s)
	}
}

// OfSet records how HNS spells a set.
func (l *Spellings) OfSet(s ipsets.Spelling) {
	l.note(state.SpellingSeen{Kind: driftSet, Object: s.Name.String(), Sent: cutText(s.Sent), Shown: cutText(s.Shown)})
}

// maxSpelled bounds the text of a set that is kept, in bytes.
const maxSpelled = 300

func cutText(values []string) string {
	text := strings.Join(values, ",")
	return text[:min(len(text), maxSpelled)]
}

// All returns the spellings in the order in which they were learned. The slice is the caller's.
func (l *Spellings) All() []state.SpellingSeen { return slices.Clone(l.list) }

// OthersCut reports whether ACLs of other programs are sent cut to their documented fields.
func (l *Spellings) OthersCut() bool { return l.cut }

// tookOtherForm records that HNS refused the form in which it was sent the ACLs of other programs, cut
// or as they were read, and took the other one.
func (l *Spellings) tookOtherForm() {
	l.cut = !l.cut
	s := state.SpellingSeen{Kind: "others", Object: "ACLs of others", Sent: "as they were read", Shown: "refused; cut to their documented fields they are taken"}
	if !l.cut {
		s.Sent, s.Shown = "cut to their documented fields", "refused; as they were read they are taken"
	}
	l.note(s)
}

// Learn learns how HNS spells the rules that were written, from the endpoint that it shows. It returns false,
// and learns nothing, unless each missing rule has one shown rule of its own in its place: with
// the same action, direction and priority, the same Id or none, and with a field that cannot be
// read. Two rules whose fields can all be read and mean different things are a difference,
// however often it is read.
func (l *Spellings) Learn(was, shown hns.Endpoint, wrote []hns.ACL) bool {
	surplus, missing := acl.Diff(wrote, shown.Parts(l.ours).Ours)
	if len(missing) == 0 {
		return false
	}
	surplus = append(surplus, nameless(was, shown)...)
	pairs := map[hns.ACL]hns.ACL{}
	for _, m := range missing {
		m = m.Canonical()
		at := slices.IndexFunc(surplus, func(s hns.ACL) bool { return spells(s.Canonical(), m) })
		if at < 0 {
			return false
		}
		pairs[surplus[at].Canonical()] = m
		surplus = slices.Delete(surplus, at, at+1)
	}
	if len(pairs) < len(missing) || len(l.rules)+len(pairs) > maxSpellings {
		return false // two are shown alike: which is which would be a guess
	}
	if l.rules == nil {
		l.rules = map[hns.ACL]hns.ACL{}
	}
	for s, m := range pairs {
		l.rules[s] = m
		l.note(state.SpellingSeen{Kind: driftACL, Object: m.ID, Sent: acl.RuleText(m), Shown: acl.RuleText(s), SentRule: &m, ShownRule: &s})
	}
	return true
}

// spells reports whether a rule that is shown may be another spelling of one that
// was sent.
func spells(shown, sent hns.ACL) bool {
	if shown.ID == "" {
		shown.ID = sent.ID // HNS does not show it
	}
	if shown.ID != sent.ID || shown.Action != sent.Action || shown.Direction != sent.Direction || shown.Priority != sent.Priority {
		return false
	}
	for _, f := range []struct{ shown, sent string }{
		{shown.LocalAddresses, sent.LocalAddresses}, {shown.RemoteAddresses, sent.RemoteAddresses},
	} {
		if f.shown != f.sent && hns.ReadableAddresses(f.shown) {
			return false
		}
	}
	for _, f := range []struct{ shown, sent string }{
		{shown.LocalPorts, sent.LocalPorts}, {shown.RemotePorts, sent.RemotePorts},
	} {
		if f.shown != f.sent && hns.ReadablePorts(f.shown) {
			return false
		}
	}
	if shown.Protocols != sent.Protocols && hns.ReadableProtocol(shown.Protocols) {
		return false
	}
	return shown.RuleType == sent.RuleType || shown.RuleType != hns.Switch && shown.RuleType != hns.Host
}

// nameless returns the rules without an Id that are shown now and were not before.
func nameless(was, shown hns.Endpoint) []hns.ACL {
	of := func(e hns.Endpoint) (out []hns.ACL) {
		for _, p := range e.Policies {
			if a, err := p.ACL(); err == nil && a.ID == "" {
				out = append(out, a.Canonical())
			}
		}
		return out
	}
	added, _ := acl.Diff(of(was), of(shown))
	return added
}

// ours reports whether a canonical ACL of an endpoint is ours, and returns it in the form in which it
// was sent (hns.Endpoint.Parts).
func (l *Spellings) ours(a hns.ACL) (sent hns.ACL, is bool) {
	if sent, learned := l.rules[a]; learned {
		return sent, true
	}
	return a, a.Ours()
}
