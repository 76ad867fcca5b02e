package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/canary"
	"github.com/winnpm/winnpm/pkg/metrics"
)

// startCheckLimit bounds phase 0 of the doctor at the start of an agent. It begins after the
// first transaction, which it would slow down: HNS may make one call at a time. When that
// does not come in startCheckWait, what HNS does otherwise may be why.
const (
	startCheckLimit = 10 * time.Second
	startCheckWait  = 30 * time.Second
)

// errStartCheckLimit is why it did not come to its end.
var errStartCheckLimit = fmt.Errorf("HNS took longer than %v", startCheckLimit)

// mostNotes is how many refuted assumptions /readyz names.
const mostNotes = 10

// checkStart runs phase 0 of the doctor beside the agent's work: it reads, writes nothing,
// and holds nothing up. Its calls have a worker of their own, so that one that hangs
// neither stops the agent's calls nor makes it unhealthy. With another binding it is left out,
// as its calls are those of ours.
func (a *agent) checkStart(ctx context.Context) {
	if a.host.raw == nil || a.set.Binding == bindingHcsshim {
		return
	}
	wait := time.NewTimer(startCheckWait)
	defer wait.Stop()
	select {
	case <-a.first:
	case <-wait.C:
	case <-ctx.Done():
		return
	}
	raw, err := a.host.raw(startCheckLimit)
	if err != nil {
		warn(a.logger, "HNS is not asked what WinNPM assumes of it", "reason", err.Error())
		return
	}
	defer raw.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, startCheckLimit, errStartCheckLimit)
	defer cancel()
	began := time.Now()
	r := doctor.Run(ctx, raw, doctor.Options{Node: a.host.facts(), ReadOnly: true, Now: time.Now})
	if r.Broken != "" { // calls that had no answer refute nothing
		a.logger.Info("HNS was not asked all that WinNPM assumes of it", "reason", r.Broken, "calls", len(r.Records))
		return
	}
	refuted := refutations(r)
	a.metrics.Refuted(metrics.ByReading, len(refuted))
	for _, text := range refuted {
		warn(a.logger, "HNS does otherwise than WinNPM assumes; npm doctor records it", "assumption", text)
	}
	a.notes.set("start check", noteOf(refuted))
	a.logger.Info("HNS was asked what WinNPM assumes of it", "refuted", len(refuted), "held", r.Count(doctor.Held), "calls", len(r.Records), "took", time.Since(began))
}

// refutations returns a line for each assumption that is refuted, with the first finding.
func refutations(r doctor.Result) []string {
	var out []string
	for _, answer := range r.Answers {
		if answer.Verdict != doctor.Refuted {
			continue
		}
		for _, f := range answer.Findings {
			if f.Verdict == doctor.Refuted {
				out = append(out, fmt.Sprintf("%s (%s): %s", answer.ID, answer.What, f.Why))
				break
			}
		}
	}
	return out
}

// noteOf is the line of /readyz; empty: none.
func noteOf(otherwise []string) string {
	if len(otherwise) == 0 {
		return ""
	}
	more := ""
	if n := len(otherwise); n > mostNotes {
		otherwise, more = otherwise[:mostNotes], fmt.Sprintf("; and %d more", n-mostNotes)
	}
	return "HNS does otherwise than WinNPM assumes, run npm doctor: " + strings.Join(otherwise, "; ") + more
}

// canaried takes what HNS did with the canary.
func (a *agent) canaried(r canary.Result) {
	a.metrics.Refuted(metrics.ByCanary, len(r.Otherwise))
	for _, text := range r.Otherwise {
		warn(a.logger, "HNS does otherwise than WinNPM assumes; npm doctor records it", "canary", text)
	}
	note := noteOf(r.Otherwise)
	if r.Left {
		warn(a.logger, "the set "+canary.ID+" may be left in HNS; nothing uses it, and the next start that writes removes it")
		note = strings.TrimPrefix(note+"; the set "+canary.ID+" may be left in HNS", "; ")
	}
	a.notes.set("canary", note)
	if r.Unknown != nil {
		a.logger.Info("the canary set did not come to its end", "reason", r.Unknown.Error(), "took", r.Took)
		return
	}
	a.logger.Info("HNS took and showed the canary set", "otherwise", len(r.Otherwise), "took", r.Took)
}
