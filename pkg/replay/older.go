package replay

import (
	"context"
	"slices"
	"time"
)

// describe fills in the result for a recording of an older build, which read HNS in another
// way: what HNS had and how it answered, in the order of time. It does not run the
// dataplane of this build, which would ask for something else at every step.
func (p *player) describe(ctx context.Context) {
	type moment struct {
		at time.Time
		do func()
	}
	var all []moment
	for i := range p.rec.Steps {
		s := &p.rec.Steps[i]
		ctx, l := p.playback(ctx, s, &p.result.Steps[i])
		l.cancel()
		l.over = true
		for j := range s.Calls {
			all = append(all, moment{ended(&s.Calls[j]), func() { p.skip(ctx, l) }})
		}
		all = append(all, moment{s.Began.Add(s.Took), func() { p.tell(l) }})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range all {
		if err := ctx.Err(); err != nil {
			p.result.Stopped = err.Error()
			return
		}
		m.do()
	}
}
