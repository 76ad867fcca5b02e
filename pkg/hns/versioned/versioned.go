// Package versioned makes writes to HNS endpoints conditional on a version.
//
// HNS has no versions and no conditional write. A Writer approximates them: it reads the endpoint
// right before an Update, and does not write if the endpoint differs from the one that the write
// was planned from. After each write it reads the endpoint again and compares it with the written
// rules. Another program may still write between the first read and the write. An Update then
// removes what the other program wrote; an Add removes nothing, so for an Add an earlier read of
// the caller is enough (Writer.Seen). The read after the write finds the remaining differences.
//
// An error of HNS, whatever its code, does not prove that a write was not done. The read after the
// write proves it.
//
// The version covers what a plan is based on (hns.Basis). The policies of other programs may change
// from read to read, in meaning and in spelling: they are sent back as they were read right before.
//
// The caller decides what a conflict means for its plan.
package versioned

import (
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// ErrUnread is the error of a write that was not made because the endpoint could not be read
// before. It wraps the class of the read's error too.
var ErrUnread = errors.New("the endpoint could not be read before the write")

// Conflict is an hns.ErrConflict: the endpoint is not in the expected state.
type Conflict struct {
	// Endpoint is the endpoint as the read that found the conflict shows it.
	Endpoint hns.Endpoint
	// Written is set if the write was made, and the read after it does not show the expected state.
	Written bool
	// Cause is the error of a write that failed and still did something; otherwise nil.
	Cause error
}

// Error implements error.
func (c *Conflict) Error() string {
	when := "before the write"
	if c.Written {
		when = "right after the write"
	}
	s := fmt.Sprintf("hns: endpoint %s: %s: %v", c.Endpoint.ID, when, hns.ErrConflict)
	if c.Cause != nil {
		s += ", and it failed: " + c.Cause.Error()
	}
	return s
}

// Unwrap returns the class.
func (c *Conflict) Unwrap() error { return hns.ErrConflict }

// Refused is the error of a write that HNS answered with an error and did not do: a read after it
// shows the endpoint unchanged.
type Refused struct{ Err error }

// Error implements error.
func (r *Refused) Error() string { return "not done: " + r.Err.Error() }

// Unwrap returns the error of HNS.
func (r *Refused) Unwrap() error { return r.Err }

// Writer writes our rules to endpoints. It has no state.
type Writer struct {
	// Ask makes a request. A Writer reads an endpoint once before a write, and once after it, or
	// twice if the first read does not show the written rules.
	Ask func(hns.Request) hns.Result
	// Seen is the endpoint as the caller's transaction has read it, or nil. With Seen, an Add makes
	// no other read before it.
	Seen *hns.Endpoint
	// Unchecked disables the versions: no read before an Add, no read after a write, and no
	// conflict. An Update still reads before the write, because it has to send the policies of
	// other programs.
	Unchecked bool
	// Ours reports whether an ACL is ours, and returns it in the form in which it was sent; see
	// hns.Endpoint.Parts. If Ours is nil, the Id prefix decides.
	Ours func(hns.ACL) (sent hns.ACL, is bool)
	// Learn is called when two reads after a write agree and differ from the written rules. It
	// reports whether Ours from now on returns the written rules for the shown ones. May be nil.
	Learn func(was, shown hns.Endpoint, wrote []hns.ACL) bool
	// Cut selects what an Update sends first: the foreign ACLs cut to their documented fields
	// (true), or as they were read (false). If HNS rejects the first form, the Update sends the
	// other one.
	Cut bool
}

// Done is the result of a write.
type Done struct {
	Version hns.Version // of the endpoint after the write
	// Shown is the endpoint as the read after the write shows it, and After its parts. Shown is
	// nil if there was no read.
	Shown *hns.Endpoint
	After hns.Parts
	// OtherForm is set if HNS rejected the form of foreign ACLs that Writer.Cut selects, and took the
	// other one.
	OtherForm bool
}

// view is an endpoint as read, with its policies decoded, and its version.
type view struct {
	hns.Endpoint
	hns.Parts
	version hns.Version
}

func (w Writer) view(e hns.Endpoint) view {
	parts := e.Parts(w.Ours)
	return view{e, parts, hns.Basis(e.Addrs, parts.Ours, parts.Defaults)}
}

// Unchecked is the version of every endpoint that an unchecked Writer has written.
const Unchecked hns.Version = "unchecked"

// Add appends rules to an endpoint whose version must be from.
//
// It returns the errors of hns.Client.AddACLs, and ErrUnread. Errors with which HNS answered are
// wrapped in a *Refused or a *Conflict.
func (w Writer) Add(id string, from hns.Version, acls []hns.ACL) (Done, error) {
	if w.Unchecked {
		return Done{Version: Unchecked}, w.Ask(hns.Request{Op: hns.OpACLAdd, Endpoint: id, ACLs: acls}).Err
	}
	was, err := w.before(id, from, w.Seen)
	if err != nil {
		return Done{}, err
	}
	if err := w.Ask(hns.Request{Op: hns.OpACLAdd, Endpoint: id, ACLs: acls}).Err; err != nil {
		return Done{}, w.failed(id, was, err)
	}
	return w.after(id, was, slices.Concat(was.Ours, acls))
}

// Replace replaces all our rules of an endpoint with acls. The version of the endpoint must be
// from. The policies of other programs are sent back byte for byte as they were read, unless HNS
// rejects that: see Cut.
//
// It returns the errors of hns.Client.ReplacePolicies, and ErrUnread. Errors with which HNS answered
// are wrapped in a *Refused or a *Conflict.
func (w Writer) Replace(id string, from hns.Version, acls []hns.ACL) (Done, error) {
	was, err := w.before(id, from, nil)
	if err != nil {
		return Done{}, err
	}
	done, err := w.replace(id, was, acls, w.Cut)
	if _, refused := errors.AsType[*Refused](err); !refused {
		return done, err
	}
	if _, shorter := documented(was.Foreign); !shorter {
		return done, err // there is no other form
	}
	other, errOther := w.replace(id, was, acls, !w.Cut)
	if _, refused := errors.AsType[*Refused](errOther); refused {
		return done, err
	}
	other.OtherForm = errOther == nil
	return other, errOther
}

// replace makes one Update. cut has the meaning of Writer.Cut.
func (w Writer) replace(id string, was view, acls []hns.ACL, cut bool) (Done, error) {
	policies := slices.Clone(was.Foreign)
	if cut {
		policies, _ = documented(policies)
	}
	for _, a := range acls {
		policies = append(policies, hns.NewACLPolicy(a))
	}
	err := w.Ask(hns.Request{Op: hns.OpACLUpdate, Endpoint: id, Policies: policies}).Err
	switch {
	case err != nil:
		return Done{}, w.failed(id, was, err)
	case w.Unchecked:
		return Done{Version: Unchecked}, nil
	}
	return w.after(id, was, acls)
}

// documented returns policies with the ACLs cut to their documented fields, and whether any of them
// had another field.
func documented(policies []hns.EndpointPolicy) (out []hns.EndpointPolicy, shorter bool) {
	for _, p := range policies {
		cut, is := p.Documented()
		shorter = shorter || is
		out = append(out, cut)
	}
	return out, shorter
}

// rules returns a version of all ACLs of all owners, to compare two reads: the bytes of foreign
// policies may differ from read to read.
func (v view) rules() hns.Version {
	var all []hns.ACL
	for _, p := range v.Policies {
		if a, err := p.ACL(); err == nil {
			all = append(all, a)
		}
	}
	return hns.Basis(v.Addrs, all, hns.Defaults{})
}

// before returns the view of seen, or reads the endpoint if seen is nil. It returns a Conflict if
// its version is not from. An empty from is no version, so it always conflicts.
func (w Writer) before(id string, from hns.Version, seen *hns.Endpoint) (view, error) {
	if seen == nil {
		is := w.Ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
		if is.Err != nil {
			return view{}, fmt.Errorf("%w: %w", ErrUnread, is.Err)
		}
		seen = &is.Endpoint
	}
	was := w.view(*seen)
	if !w.Unchecked && was.version != from {
		return view{}, &Conflict{Endpoint: *seen}
	}
	return was, nil
}

// failed reads the endpoint after a write that HNS answered with an error, to see whether the write
// was done anyway. After a call that broke off it does not read, because HNS may still be working
// on the call: the caller has to read later.
func (w Writer) failed(id string, was view, err error) error {
	if hns.EndpointGone(err) || !hns.Answered(err) {
		return err
	}
	if w.Unchecked {
		return &Refused{err}
	}
	read := w.Ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	if read.Err != nil {
		return w.unread(id, read.Err)
	}
	if is := w.view(read.Endpoint); is.version != was.version || len(is.Foreign) < len(was.Foreign) {
		return &Conflict{Endpoint: read.Endpoint, Written: true, Cause: err}
	}
	return &Refused{err}
}

// after reads the endpoint and checks that our rules are exactly these, and that there are no fewer
// foreign policies than before. If the endpoint cannot be read, the outcome of the write is unknown,
// whatever the read's error, unless the error says that the endpoint is gone.
func (w Writer) after(id string, was view, ours []hns.ACL) (Done, error) {
	want := hns.Basis(was.Addrs, ours, was.Defaults)
	var shown view
	for try := range 2 {
		read := w.Ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
		if read.Err != nil {
			return Done{}, w.unread(id, read.Err)
		}
		is := w.view(read.Endpoint)
		whole := len(is.Foreign) >= len(was.Foreign)
		if is.version == want && whole {
			return Done{Version: want, Shown: &is.Endpoint, After: is.Parts}, nil
		}
		agree := try > 0 && whole && is.rules() == shown.rules() // do not learn from a read that lacks a foreign policy
		shown = is
		if agree && w.Learn != nil && w.Learn(was.Endpoint, is.Endpoint, ours) {
			if is = w.view(is.Endpoint); is.version == want {
				return Done{Version: want, Shown: &is.Endpoint, After: is.Parts}, nil
			}
		}
	}
	return Done{}, &Conflict{Endpoint: shown.Endpoint, Written: true}
}

// unread returns the error of a write after which the endpoint cannot be read.
func (w Writer) unread(id string, read error) error {
	if hns.EndpointGone(read) {
		return read
	}
	return &hns.OpError{Op: hns.OpEndpointGet, Kind: hns.KindEndpoint, ID: id, Code: hns.CodeOf(read),
		Err: fmt.Errorf("%w: written, and not read after it: %v", hns.ErrUnavailable, read)} //nolint:errorlint // its class speaks of the read, not of the write
}
