package dataplane

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// written has what a transaction has asked HNS to write, each object once: the ids of sets by
// verb, and under "" the GUIDs of endpoints.
type written map[hns.Verb]map[string]bool

// note takes a request.
func (w *written) note(r hns.Request) {
	if hns.ReadsOnly(r.Op) {
		return
	}
	if *w == nil {
		*w = written{}
	}
	objects := (*w)[r.Verb()]
	if objects == nil {
		objects = map[string]bool{}
		(*w)[r.Verb()] = objects
	}
	if r.Verb() == "" {
		objects[r.Endpoint] = true
	}
	for _, s := range r.Sets {
		objects[s.ID] = true
	}
}

// String is one line of counts; empty for nothing.
func (w written) String() string {
	if len(w) == 0 {
		return ""
	}
	return fmt.Sprintf("sets +%d ~%d -%d, endpoints %d", len(w[hns.Add]), len(w[hns.Update]), len(w[hns.Remove]), len(w[""]))
}
