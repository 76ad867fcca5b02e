package hnsd

import (
	"context"
	"strings"
)

// Fault makes calls of the DLLs fail. The faults of the simulator work below:
// they know sets and rules, these know exports.
type Fault struct {
	Proc string // "HcnModifyEndpoint"; empty: any
	// Object is the GUID of the network, endpoint or namespace that the call opens,
	// uses or closes; empty: any, and calls of no one object.
	Object string
	Nth    int    // of the matching calls from now on; 0 and 1: the next
	Times  int    // how many in a row; 0: one, -1: all
	Code   uint32 // HRESULT to answer with (0: S_OK)
	Record string // error record to answer with (empty: NULL)
	// Done has the call carried out all the same before that answer. When the
	// answer is a failure, a handle that the call opened is closed again.
	Done bool
	// Hang holds the answer back until ReleaseHangs. Then it is what Code,
	// Record and Done say; without any of them the call is carried out late.
	Hang bool
	// Do runs before anything else, on the goroutine of the connection. With
	// nothing but Do the call goes on as usual.
	Do func()
}

// armedFault is a fault that waits for its calls.
type armedFault struct {
	Fault
	seen int // matching calls so far
	left int // calls to fail; negative: no end
}

// Inject arms a fault. The first one that is due takes a call.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := f.Times
	if left == 0 {
		left = 1
	}
	s.faults = append(s.faults, &armedFault{Fault: f, left: left})
}

// ReleaseHangs lets every call that hangs now be answered.
func (s *Server) ReleaseHangs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.released)
	s.released = make(chan struct{})
}

// due counts the call at every fault and returns the one that takes it, or nil;
// s.mu must be held.
func (s *Server) due(proc string, r request) *Fault {
	object := r.id
	if h, ok := s.handles.open[r.handle]; ok {
		object = h.id
	}
	var taken *Fault
	for _, f := range s.faults {
		if f.left == 0 || f.Proc != "" && f.Proc != proc || f.Object != "" && !strings.EqualFold(f.Object, object.String()) {
			continue
		}
		f.seen++
		if taken != nil || f.seen < f.Nth {
			continue
		}
		if f.left > 0 {
			f.left--
		}
		taken = &f.Fault
	}
	return taken
}

// runFault does what f makes of a call. released is closed by ReleaseHangs.
func (s *Server) runFault(ctx context.Context, op operation, r request, f *Fault, released <-chan struct{}) (reply, error) {
	if f.Do != nil {
		f.Do()
	}
	var done reply
	if f.Done {
		done = s.run(ctx, op, r)
	}
	if f.Hang {
		select {
		case <-released:
		case <-ctx.Done():
			return reply{}, ctx.Err()
		}
	}
	switch {
	case f.Code == 0 && f.Record == "" && f.Done:
		return done, nil
	case f.Code == 0 && f.Record == "":
		return s.run(ctx, op, r), nil
	}
	a := reply{code: f.Code}
	if f.Record != "" {
		a.record = &f.Record
	}
	switch failed := int32(f.Code) < 0; {
	case failed && done.handle != 0:
		s.forgetHandle(done.handle)
	case !failed && f.Done:
		a.handle, a.output = done.handle, done.output
	case !failed:
		a.output = op.empty
	}
	return a, nil
}
