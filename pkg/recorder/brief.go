package recorder

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// The most that a brief step has.
const (
	briefEvents    = 32
	briefCalls     = 64
	briefErrors    = 16
	briefEndpoints = 16 // of a look
)

// brief returns the step without what was sent and read. It shares nothing large with the
// step. The brief of a brief is the same.
func (s Step) brief() Step {
	events := s.Events[:min(len(s.Events), briefEvents)]
	s.MoreEvents += len(s.Events) - len(events)
	s.Events = nil
	for _, e := range events {
		s.Events = append(s.Events, Event{Kind: e.Kind, Operation: e.Operation, Object: e.Object})
	}
	if s.Look != nil {
		look := *s.Look
		look.Endpoints = slices.Clone(look.Endpoints[:min(len(look.Endpoints), briefEndpoints)])
		s.MoreEndpoints += len(s.Look.Endpoints) - len(look.Endpoints)
		s.Look = &look
	}
	calls := s.Calls[max(0, len(s.Calls)-briefCalls):]
	s.MoreCalls += len(s.Calls) - len(calls)
	s.Calls = nil
	for _, c := range calls {
		s.Calls = append(s.Calls, c.brief())
	}
	if s.Report != nil {
		s.Report = briefReport(*s.Report)
	}
	return s
}

// brief returns the call without what was sent and read.
func (c Call) brief() Call {
	return Call{Op: c.Op, Endpoint: c.Endpoint, Began: c.Began, Took: c.Took, Running: c.Running, Error: c.Error, DLLCalls: c.DLLCalls, Count: c.Count}
}

// briefReport returns a report without what grows with the node.
func briefReport(r state.Report) *state.Report {
	r.Warnings, r.NewEndpoints, r.Starts, r.Repairs = nil, nil, nil, nil
	r.Errors = slices.Clone(r.Errors[:min(len(r.Errors), briefErrors)])
	return &r
}
