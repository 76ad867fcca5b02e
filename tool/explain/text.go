package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/phrase"
)

// shownRules limits the rules that are shown, and shownMisses the changes that would allow a connection.
const (
	shownRules  = 4
	shownMisses = 5
)

// WriteText writes the answer as text: the verdict, the reasons at each end, the changes that would allow
// it, and warnings.
func (a Answer) WriteText(w io.Writer) error {
	p := &cli.Page{}
	p.Line(0, "%s  %s -> %s:%d/%s  (%s -> %s)", strings.ToUpper(string(a.Verdict)), a.From, a.To, a.Port, a.Protocol, a.Source, a.Destination)
	a.writeHalves(p)
	a.writeContested(p)
	a.writeSide(p, a.Egress, "out of")
	a.writeSide(p, a.Ingress, "into")
	writeMisses(p, a.Egress, "out of")
	writeMisses(p, a.Ingress, "into")
	for _, warning := range a.Warnings {
		p.Line(0, "warning: %s", warning)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// writeContested explains why a connection that the rules allow is unknown at a contested address.
func (a Answer) writeContested(p *cli.Page) {
	for _, s := range []Side{a.Egress, a.Ingress} {
		if s.Contested && a.Verdict == Unknown {
			p.Line(0, "%s may not own its address: the verdict for the address may be wrong for the pod.", s.End)
		}
	}
}

// writeHalves writes that fewer than two ends are judged.
func (a Answer) writeHalves(p *cli.Page) {
	who, known := "This node knows", "one half only"
	if a.Node == "" {
		who = "The nodes know"
	}
	switch {
	case a.Egress.Judged && a.Ingress.Judged:
		return
	case !a.Egress.Judged && !a.Ingress.Judged:
		known = "neither half"
	case a.Egress.verdict() == Allowed || a.Ingress.verdict() == Allowed:
		known = "one half only, which allows it; the other one may block it"
	}
	p.Line(0, "%s %s.", who, known)
}

func (a Answer) writeSide(p *cli.Page, s Side, word string) {
	head := fmt.Sprintf("%s %s: ", word, s.End)
	if s.Node != "" {
		head = fmt.Sprintf("%s %s on %s: ", word, s.End, s.Node)
		a.Time = s.Time
	}
	switch {
	case !s.Judged && s.Node != "":
		p.Line(0, "%snot judged, %s", head, s.Note)
		return
	case !s.Judged:
		p.Line(0, "%snot known here. %s", head, s.Note)
		return
	}
	if s.Pod == "" && s.Note != "" {
		p.Line(0, "%s%s, %s", head, s.Actual.Verdict, s.Note)
		return
	}
	p.Line(0, "%s%s, %s", head, verdictWord(s.Actual.Verdict), s.Actual.Why)
	if s.Note != "" {
		p.Line(1, "%s", s.Note)
	}
	a.writeState(p, *s.Actual)
	switch {
	case s.Differs():
		p.Line(1, "It should be %s%s: %s", verdictWord(s.Wanted.Verdict), a.since(s.Since), s.Wanted.Why)
		a.writeState(p, *s.Wanted)
	case s.Pending:
		p.Line(1, "HNS is not yet as it should be%s; the verdict will be the same.", a.since(s.Since))
	}
	if text := startText(s.Start); text != "" {
		p.Line(1, "%s", text)
	}
}

// startText says how long a pod was open when it started. It returns "" if that is unknown, or if the pod
// still is open, which the verdicts show.
func startText(s *state.Start) string {
	if s == nil || s.Until.IsZero() {
		return ""
	}
	took := s.Open().Round(time.Millisecond)
	if s.Told {
		return fmt.Sprintf("Its rules were there %s after its CNI told of it, at %s.", took, timeText(s.Until))
	}
	return fmt.Sprintf("It was open for %s or longer at its start, until %s.", took, timeText(s.Until))
}

func verdictWord(v Verdict) string {
	if v == Allowed {
		return string(v)
	}
	return strings.ToUpper(string(v))
}

// since says since when HNS differs, and for how long.
func (a Answer) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	text := " since " + timeText(t)
	if !a.Time.IsZero() {
		text += fmt.Sprintf(" (for %s)", a.Time.Sub(t).Round(time.Second))
	}
	return text
}

// writeState writes the policies' rules with their checks: the deciding rules, or, if the connection is blocked,
// the allow rules that do not match.
func (a Answer) writeState(p *cli.Page, s State) {
	rules := s.Rules
	if s.Verdict == Blocked {
		rules = s.Tried
	}
	rules = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Policy == "" })
	for _, r := range rules[:min(len(rules), shownRules)] {
		where := r.name()
		if len(r.Lines) > 0 {
			where += " (" + strings.Join(r.Lines, ", ") + ")"
		}
		p.Line(1, "%s: %s", where, r.Words)
		for _, c := range r.Checks {
			word := "no "
			if c.OK {
				word = "yes"
			}
			p.Line(2, "%s  %s: %s", word, c.What, c.Why)
		}
	}
	if more := len(rules) - shownRules; more > 0 {
		p.Line(1, "and %s", phrase.Count(more, "more rule"))
	}
}

// writeMisses writes the changes that would allow the connection at one end.
func writeMisses(p *cli.Page, s Side, word string) {
	if len(s.Misses) == 0 {
		return
	}
	p.Line(0, "One change would allow it %s %s:", word, s.End)
	for _, m := range s.Misses[:min(len(s.Misses), shownMisses)] {
		p.Line(1, "%s, %s", m.Words, m.byText())
	}
	if more := len(s.Misses) - shownMisses; more > 0 {
		p.Line(1, "or %s", phrase.Count(more, "other change"))
	}
}

// byText names the rule that would then allow the connection.
func (m Miss) byText() string {
	if m.Line != "" {
		return fmt.Sprintf("by %s %s (%s)", m.Policy, m.Path, m.Line)
	}
	return fmt.Sprintf("by %s %s", m.Policy, m.Path)
}

// SetNames maps the ids of sets to names.
type SetNames map[string]string

// Of returns the names of sets by id, and the id itself for an unknown set.
func (names SetNames) Of(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = cmp.Or(names[id], id)
	}
	return out
}

// shownBlocks limits the blocks that are shown of a rule; an ipBlock with exceptions is split into many.
const shownBlocks = 4

// Peer describes the peers of an ACL, with sets by name.
func (names SetNames) Peer(a hns.ACL) string {
	peer := a.RemoteAddresses
	if a.Direction == hns.In && len(a.SetIDs()) > 0 {
		peer = a.LocalAddresses // with sets, the source
	}
	word := "to"
	if a.Direction == hns.In {
		word = "from"
	}
	switch {
	case peer == "":
		return word + " everyone"
	case len(a.SetIDs()) > 0:
		sets := names.Of(strings.Split(peer, ","))
		slices.Sort(sets) // by name: the order of ids says nothing to people
		return word + " " + strings.Join(sets, " and ")
	}
	return word + " " + shorten(peer)
}

var protocolNames = map[string]string{"": "any protocol", "6": "TCP", "17": "UDP", "132": "SCTP"}

// PortsText describes the protocol and destination ports of an ACL.
func PortsText(a hns.ACL) string {
	ports := a.LocalPorts
	if a.Direction == hns.Out {
		ports = a.RemotePorts
	}
	return strings.TrimSpace(cmp.Or(protocolNames[a.Protocols], a.Protocols) + " " + ports)
}

func portText(p policy.Port) string {
	switch {
	case p.Name != "":
		return fmt.Sprintf("%s/%s", p.Name, p.Protocol)
	case p.First == 0:
		return "any port of " + string(p.Protocol)
	}
	return Range{p.Protocol, p.First, p.Last}.String()
}

func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// some returns at most the given number of words. If there are more, the last one is the number of the
// others.
func some(words []string, most int) []string {
	if len(words) <= most {
		return words
	}
	return append(slices.Clone(words[:most-1]), fmt.Sprintf("%d more", len(words)-most+1))
}
