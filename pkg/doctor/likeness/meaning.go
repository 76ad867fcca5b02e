package likeness

import (
	"fmt"
	"time"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// limits are what this HNS has too much of, by the phase that doubles things.
func (l look) limits() []hnssim.Refusal {
	var out []hnssim.Refusal
	for _, of := range []struct {
		trait               hnssim.Trait
		probe, export, asks string
		unit                int
	}{
		{hnssim.NestedMembers, "scale: members of a nested set", sets, "%d members of a nested set", 1},
		{hnssim.SetValues, "scale: members of a set", sets, "%d members of a set", 1},
		{hnssim.SetCount, "scale: sets", sets, "%d sets", 1},
		{hnssim.ACLCount, "scale: rules", rules, "%d rules", 1},
		{hnssim.RequestBytes, "scale: thousand bytes of an Update", rules, "%d thousand bytes", 1000},
	} {
		taken := 0
		for _, r := range l.records {
			var n int
			if _, err := fmt.Sscanf(r.Asks, of.asks, &n); err != nil || r.Export != of.export || r.Probe != of.probe {
				continue
			}
			if r.Refused() {
				out = append(out, hnssim.Refusal{What: of.trait, N: taken * of.unit, Code: r.Code()})
				break
			}
			taken = n
		}
	}
	return out
}

// Meaning returns what the switch of a node does otherwise with rules and sets, as far as
// packets have shown it, and the assumptions that are refuted and no simulator can be like.
// A refuted assumption may be wrong in more than one way: Differences of an examination of
// such a simulator say whether this is the one.
func Meaning(r doctor.Result) (m hnssim.Meaning, unlike []doctor.Assumption) {
	fields := map[string]*bool{
		"S1": &m.CommaIsOr, "S2": &m.SetsBySide, "S3": &m.EmptyMatches, "S4": &m.EmptyListNone, "S5": &m.FillerMatches, "S6": &m.Frozen,
		"A1": &m.HigherWins, "A3": &m.DefaultAllows, "A4": &m.LateOnes, "A5": &m.AddressesBySet, "A11": &m.AnyIsTCP,
		"A14": &m.HostPair, "A21": &m.Resets, "A22": &m.Stateless,
	}
	for _, a := range r.Answers {
		if a.Verdict != doctor.Refuted || a.Phase != doctor.Packets && a.Phase != doctor.Restart {
			continue
		}
		field, ok := fields[a.ID]
		switch {
		case ok:
			*field = true
		case a.ID == "A28" && slowest(r) > 0:
			m.Lag = slowest(r)
		default:
			unlike = append(unlike, a.Assumption)
		}
	}
	if m.HigherWins { // 65500 wins then anyway
		m.LateOnes = false
	}
	return m, unlike
}

// slowest is after which time the packets of the slowest question went right, in seconds.
func slowest(r doctor.Result) time.Duration {
	longest := int64(0)
	for _, q := range r.Questions {
		longest = max(longest, q.RightMicros)
	}
	return (time.Duration(longest) * time.Microsecond).Truncate(time.Second)
}

// otherFates says which packets went otherwise on another node. A question that is asked again
// in another style is another question.
func otherFates(node, other doctor.Result) []string {
	fates := map[string]doctor.Fate{}
	each := func(r doctor.Result, do func(key string, q doctor.Question, i int)) {
		times := map[string]int{}
		for _, q := range r.Questions {
			for i, p := range q.Packets {
				do(fmt.Sprintf("%s %d %s", q.Probe, times[q.Probe], p.Flow), q, i)
			}
			times[q.Probe]++
		}
	}
	each(other, func(key string, q doctor.Question, i int) { fates[key] = q.Packets[i].Is })
	var out []string
	each(node, func(key string, q doctor.Question, i int) {
		p := q.Packets[i]
		if is, ok := fates[key]; ok && is != p.Is {
			out = append(out, fmt.Sprintf("%s: %s: %q, and there %q (record %d)", q.Probe, p.Flow, p.Is, is, q.Written))
		}
	})
	return out
}
