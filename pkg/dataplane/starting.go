package dataplane

import (
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
)

// enumerateNew finds the endpoints that nothing uses yet. Those that nobody knows are read
// next, one by one. It says nothing of the endpoints that it lacks, and an error of it
// nothing at all: pods whose endpoint is not found are looked for again.
func (r *run) enumerateNew(starting []*desired.PodState) {
	res := r.ask(hns.Request{Op: hns.OpEndpointNew})
	r.d.endpoints.TakeNewList(res.IDs, res.Err, starting)
}
