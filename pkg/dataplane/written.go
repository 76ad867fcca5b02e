package dataplane

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// written counts what a transaction has asked HNS to write: each object once.
type written struct {
	sets      map[hns.Verb]map[string]bool
	endpoints map[string]bool
}

// note takes a request.
func (w *written) note(r hns.Request) {
	switch {
	case hns.ReadsOnly(r.Op):
	case r.Verb() == "":
		if w.endpoints == nil {
			w.endpoints = map[string]bool{}
		}
		w.endpoints[r.Endpoint] = true
	default:
		if w.sets == nil {
			w.sets = map[hns.Verb]map[string]bool{}
		}
		if w.sets[r.Verb()] == nil {
			w.sets[r.Verb()] = map[string]bool{}
		}
		for _, s := range r.Sets {
			w.sets[r.Verb()][s.ID] = true
		}
	}
}

// String is one line of counts; empty for nothing.
func (w *written) String() string {
	if len(w.sets)+len(w.endpoints) == 0 {
		return ""
	}
	return fmt.Sprintf("sets +%d ~%d -%d, endpoints %d",
		len(w.sets[hns.Add]), len(w.sets[hns.Update]), len(w.sets[hns.Remove]), len(w.endpoints))
}
