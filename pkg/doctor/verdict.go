package doctor

import (
	"fmt"
	"slices"
)

// Verdict is what the records say of an assumption.
type Verdict string

// The verdicts.
const (
	Held    Verdict = "held"
	Refuted Verdict = "refuted"
	Unknown Verdict = "unknown"
)

// Finding is what one probe says of an assumption; of none, when it says that HNS takes what
// the simulator refuses, or the other way round.
type Finding struct {
	Assumption string  `json:"assumption,omitempty"`
	Probe      string  `json:"probe"`
	Verdict    Verdict `json:"verdict"`
	Why        string  `json:"why"`
	Records    []int   `json:"records,omitempty"` // that say so
}

// Answer is what all findings come to.
type Answer struct {
	Assumption
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings,omitempty"`
}

// find adds a finding of the probe that is on.
func (e *exam) find(assumption string, v Verdict, why string, records ...*Record) {
	if assumption == "" && v != Refuted {
		return // the record says it all
	}
	f := Finding{Assumption: assumption, Probe: e.probe, Verdict: v, Why: why}
	for _, r := range records {
		f.Records = append(f.Records, r.N)
	}
	e.findings = append(e.findings, f)
}

// holds adds a finding that is held or refuted.
func (e *exam) holds(assumption string, held bool, why string, records ...*Record) {
	v := Refuted
	if held {
		v = Held
	}
	e.find(assumption, v, why, records...)
}

// conclude gives each assumption its verdict: one finding refutes it, and without any it is
// unknown. The worst come first. Findings about no assumption are the differences.
func conclude(findings []Finding) (answers []Answer, differences []Finding) {
	by := map[string][]Finding{}
	for _, f := range findings {
		by[f.Assumption] = append(by[f.Assumption], f)
	}
	for _, a := range Assumptions() {
		answer := Answer{Assumption: a, Verdict: Unknown, Findings: by[a.ID]}
		for _, v := range []Verdict{Held, Refuted} {
			if slices.ContainsFunc(answer.Findings, func(f Finding) bool { return f.Verdict == v }) {
				answer.Verdict = v
			}
		}
		answers = append(answers, answer)
	}
	slices.SortStableFunc(answers, func(a, b Answer) int { return rank(a.Verdict) - rank(b.Verdict) })
	return answers, by[""]
}

// rank is lower for what is worse.
func rank(v Verdict) int { return slices.Index([]Verdict{Refuted, Unknown, Held}, v) }

// Count returns how many assumptions have a verdict.
func (r Result) Count(v Verdict) int {
	n := 0
	for _, a := range r.Answers {
		if a.Verdict == v {
			n++
		}
	}
	return n
}

// Headline is the whole in a line, the worst first.
func (r Result) Headline() string {
	line := fmt.Sprintf("%d refuted, %d unknown, %d held of %d assumptions", r.Count(Refuted), r.Count(Unknown), r.Count(Held), len(r.Answers))
	if len(r.Left) > 0 {
		line = fmt.Sprintf("%d things could not be taken away again; %s", len(r.Left), line)
	}
	if r.Denied() {
		line = "HNS refused the calls: run it as Administrator; " + line
	}
	if r.Broken != "" {
		line = "it did not come to its end (" + r.Broken + "); " + line
	}
	return line
}

// Denied reports whether HNS let nobody ask.
func (r Result) Denied() bool {
	return slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.ID == "C7" && a.Verdict == Held })
}
