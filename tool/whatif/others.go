package whatif

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/tool/explain"
)

// Others counts the connections of pods that are new, or deleted, with every pod and with
// addresses outside: those that pass while they are there.
type Others struct {
	Pods    int `json:"pods"`
	Allowed int `json:"allowed"`           // on some port
	Unknown int `json:"unknown,omitempty"` // not known on some port, and allowed on none
	// WithOutside are those of Allowed and Unknown with addresses that are no pod's.
	WithOutside int `json:"withOutside"`
	// ByPolicy are those of Allowed that pass by a policy of a pod that stays: its peers
	// became more. Only new pods have them.
	ByPolicy int `json:"byPolicy"`
}

// none reports whether nothing passes.
func (o Others) none() bool { return o.Allowed+o.Unknown == 0 }

// Any reports whether anything flips, comes or goes.
func (p Plan) Any() bool {
	return p.Flipped > 0 || !p.NewPods.none() || !p.DeletedPods.none()
}

// Absent is the verdict of a connection of which an end is not there: a pod that is new or
// deleted.
const Absent explain.Verdict = "absent"

// flipped reports whether the verdict changes. A connection of an absent pod counts as blocked.
func flipped(old, now explain.Verdict) bool {
	nothing := func(v explain.Verdict) bool { return v == Absent || v == explain.Blocked }
	return old != now && (old != Absent && now != Absent || !nothing(old) || !nothing(now))
}

// admits reports whether a policy of the one end that stays lets the other one through.
func (x *comparison) admits(from, to *end, now answer) bool {
	if now.verdict != explain.Allowed || from.stays() == to.stays() || from.pods == 0 || to.pods == 0 {
		return false
	}
	side := out
	if to.stays() {
		side = in
	}
	return len(x.after.Policies(now.halves[side])) > 0
}

// count counts the pods.
func (p *Plan) count(x *comparison) {
	for i := range x.ends {
		switch e := &x.ends[i]; {
		case e.stays():
			p.Pods += e.pods
		case e.there[1]:
			p.NewPods.Pods += e.pods
		default:
			p.DeletedPods.Pods += e.pods
		}
	}
	p.Connections = p.Pods * max(p.Pods-1, 0)
}

// add counts one connection that passes on some port.
func (o *Others) add(flips []Flip, outside bool) {
	n, allowed := flips[0].Connections, false
	for _, f := range flips {
		allowed = allowed || f.Before == explain.Allowed || f.After == explain.Allowed
	}
	if allowed {
		o.Allowed += n
	} else {
		o.Unknown += n
	}
	if outside {
		o.WithOutside += n
	}
}

// othersText says in a line each what new pods may do, and what deleted ones did.
func (p Plan) othersText() []string {
	var out []string
	line := func(o Others, title, allowed string) {
		if o.Pods == 0 {
			return
		}
		parts := []string{fmt.Sprintf("%s %d: %s %s", title, o.Pods, printable.Count(o.Allowed, "connection"), allowed)}
		if o.WithOutside > 0 {
			parts[0] += fmt.Sprintf(", %d of them with addresses outside", o.WithOutside)
		}
		if o.Unknown > 0 {
			parts = append(parts, fmt.Sprintf("%d not known", o.Unknown))
		}
		if o.ByPolicy > 0 {
			parts = append(parts, fmt.Sprintf("policies of pods that stay let %d of them through", o.ByPolicy))
		}
		out = append(out, strings.Join(parts, "; ")+".")
	}
	line(p.NewPods, "NEW PODS", "allowed")
	line(p.DeletedPods, "DELETED PODS", "gone")
	return out
}
