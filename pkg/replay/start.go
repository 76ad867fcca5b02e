package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
)

// fill puts into the world what a dump knows of HNS.
func (w *world) fill(d state.Dump, view dataplane.View) {
	w.setsRead = !d.Due.Unread
	for _, s := range view.Sets {
		w.sets[s.ID] = s
	}
	for _, e := range view.Endpoints {
		w.endpoints[e.ID] = e
		w.partial[e.ID] = true
	}
	for _, s := range d.Sets {
		if s.Unknown {
			w.vague[subject{set: s.ID}] = true
		}
	}
	for _, e := range d.Endpoints {
		if !e.Known {
			w.vague[subject{endpoint: e.ID}] = true
		}
	}
	w.sync(w.all())
}

// view returns what HNS has, and changes a dump so that a dataplane made from it knows just
// that.
func (w *world) view(d *state.Dump) dataplane.View {
	var v dataplane.View
	for _, id := range sorted(w.sets) {
		if strings.HasPrefix(id, hns.SetIDPrefix) {
			v.Sets = append(v.Sets, w.sets[id])
		}
	}
	for i := range d.Sets {
		d.Sets[i].Unknown = w.vague[subject{set: d.Sets[i].ID}]
	}
	for _, id := range sorted(w.endpoints) { // also one that listings lack: only a read by its GUID tells that it is gone
		e := w.endpoints[id]
		v.Endpoints = append(v.Endpoints, e)
		for i := range d.Endpoints {
			if ed := &d.Endpoints[i]; ed.ID == id && !w.vague[subject{endpoint: id}] {
				ed.Known, ed.Next.Version = true, e.Basis()
			}
		}
	}
	return v
}

// check fails with ErrRecording for what no agent records and what cannot be played.
func check(rec recorder.Recording) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrRecording, fmt.Sprintf(format, args...))
	}
	switch s := rec.Settings; {
	case rec.Format < 1 || rec.Format > recorder.Format:
		return wrong("its format is %d, this build reads 1 to %d", rec.Format, recorder.Format)
	case s.MaxRepairs < 0 || s.MaxBatchedACLs < 0 || s.GracePeriod < 0:
		return wrong("a setting is negative")
	case rec.Start == nil && rec.Forgotten > 0:
		return wrong("%s, and nothing to begin from", count(int(rec.Forgotten), "forgotten step"))
	}
	var last uint64
	for _, s := range rec.Steps {
		if s.Number <= last {
			return wrong("step %d comes after step %d", s.Number, last)
		}
		last = s.Number
		if err := checkStep(s); err != nil {
			return wrong("step %d: %s", s.Number, err.Error())
		}
	}
	return nil
}

func checkStep(s recorder.Step) error {
	for _, e := range s.Events {
		if e.Pod != nil && e.Pod.Addr.IsValid() && !e.Pod.Addr.Is4() {
			return fmt.Errorf("pod %s has an address that is not IPv4", e.Object)
		}
		if e.ClusterNode != nil && slices.ContainsFunc(e.ClusterNode.Addrs, func(a netip.Addr) bool { return !a.Is4() }) {
			return fmt.Errorf("node %s has an address that is not IPv4", e.Object)
		}
		if _, _, ok := strings.Cut(e.Object, "/"); !ok && (e.Kind == recorder.KindPod || e.Kind == recorder.KindPolicy) {
			return fmt.Errorf("%s %q without a namespace", e.Kind, e.Object)
		}
	}
	for i, c := range s.Calls {
		read := c.Error == nil && !c.Running
		ofSets := (hns.Request{Op: c.Op}).Verb() != ""
		switch {
		case c.Took < 0 || c.Began.IsZero():
			return fmt.Errorf("call %d has no time", i+1)
		case c.Op == hns.OpNetworkGet && read && c.Network == nil, c.Op == hns.OpEndpointGet && read && len(c.Endpoints) != 1:
			return fmt.Errorf("call %d has no result", i+1)
		case !hns.ReadsOnly(c.Op) && !ofSets && c.Op != hns.OpACLAdd && c.Op != hns.OpACLUpdate:
			return fmt.Errorf("call %d: no such operation %q", i+1, c.Op)
		case ofSets != (c.Endpoint == "" && !hns.ReadsOnly(c.Op)):
			return fmt.Errorf("call %d: %s of endpoint %q", i+1, c.Op, c.Endpoint)
		}
	}
	return nil
}

// newStep returns the Step of a Result for a recorded step that has not been played.
func newStep(s *recorder.Step, began time.Time) Step {
	out := Step{
		Number: s.Number, Kind: s.Kind, Offset: s.Began.Sub(began), Took: s.Took,
		Came: came(s), DLLCalls: s.DLLCalls, Calls: make([]Call, len(s.Calls)), Findings: []Finding{},
	}
	for i, c := range s.Calls {
		out.Calls[i] = Call{Op: c.Op, Endpoint: c.Endpoint, Count: c.Count, DLLCalls: c.DLLCalls, Took: c.Took}
		if c.Error != nil {
			out.Calls[i].Error = c.Error.Message
		}
		if c.Running {
			out.Calls[i].Error = "no answer yet"
		}
	}
	return out
}
