// Package versioned makes writes to HNS endpoints conditional on a version.
//
// HNS has no versions and no conditional write. A Writer comes as near as it
// can: it reads the endpoint right before an Update, refuses to write to another
// one than the write was planned from, and reads it right after each write to see that
// it is what was asked for. Between the first read and the write another program may
// still write: an Update then takes away what it wrote, an Add takes away
// nothing. So an Add can do with a read that its caller made earlier (Writer.Seen).
// The read after the write finds what is left.
//
// An error of HNS, whatever its code, does not prove that a write was not done: the read
// after it does.
//
// The version is that of what a plan is made from (hns.Basis). What others have
// may change from read to read, in meaning and in spelling: it goes back as it was
// read right before.
//
// What a conflict means for a plan is for the caller to decide.
package versioned

import (
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// ErrUnread is why a write was not made: the endpoint could not be read before.
// It goes together with the class of the read's error.
var ErrUnread = errors.New("the endpoint could not be read before the write")

// Conflict is an hns.ErrConflict: the endpoint is not what it was thought to be.
type Conflict struct {
	// Endpoint is what it is, as the read that found out shows it.
	Endpoint hns.Endpoint
	// Written: the write was made, and the read after it shows something else.
	Written bool
	// Cause is the answer to a write that did something and failed; nil for none.
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

// Refused is a write that HNS answered with an error and did not do: a read after
// it shows the endpoint as it was.
type Refused struct{ Err error }

// Error implements error.
func (r *Refused) Error() string { return "not done: " + r.Err.Error() }

// Unwrap returns the answer.
func (r *Refused) Unwrap() error { return r.Err }

// Writer writes our rules to endpoints. It has no state.
type Writer struct {
	// Ask makes a request: one read of an endpoint before a write, and one after it, or
	// two when the first shows something else.
	Ask func(hns.Request) hns.Result
	// Seen is what the caller's transaction has read of the endpoint, nil if it has not. An
	// Add needs no other read before it.
	Seen *hns.Endpoint
	// Unchecked leaves the versions out of account: no read before an Add, none
	// after a write, and nothing is refused. An Update still reads before, as the
	// policies of others have to be in it.
	Unchecked bool
	// Parts takes apart what was read; nil: our rules go by their names.
	Parts func(hns.Endpoint) hns.Parts
	// Learn is told when two reads after a write agree and show something else than
	// was written. It reports whether Parts takes that for what was written from
	// now on. nil: never.
	Learn func(was, shown hns.Endpoint, wrote []hns.ACL) bool
	// Cut has an Update send the ACLs of others cut to their documented fields at
	// first, and as they were read when that is refused; otherwise it is the other
	// way round.
	Cut bool
}

// Done is what a write left.
type Done struct {
	Version hns.Version // that the endpoint has then
	// Shown is what the read after the write shows, and After its parts; nil without one.
	Shown *hns.Endpoint
	After hns.Parts
	// Cut: others' ACLs went back cut to their documented fields. Whole: as they were
	// read. Neither: none of them has another field.
	Cut, Whole bool
}

func (w Writer) read(id string) (hns.Endpoint, error) {
	is := w.Ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	return is.Endpoint, is.Err
}

// Unchecked is the version of whatever an unchecked Writer has written.
const Unchecked hns.Version = "unchecked"

// Add appends rules to the endpoint that has the version from.
//
// Errors are those of hns.Client.AddACLs, of which those that HNS answered come as
// a *Refused or a *Conflict; and ErrUnread.
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

// Replace makes acls all that the endpoint with the version from has of ours.
// What others have there goes back to HNS byte for byte as it was read, unless HNS
// refuses that: see Cut.
//
// Errors are those of hns.Client.ReplacePolicies, of which those that HNS answered
// come as a *Refused or a *Conflict; and ErrUnread.
func (w Writer) Replace(id string, from hns.Version, acls []hns.ACL) (Done, error) {
	was, err := w.before(id, from, nil)
	if err != nil {
		return Done{}, err
	}
	forms := []form{{policies: was.Foreign}}
	if cut, shorter := documented(was.Foreign); shorter {
		forms = []form{{policies: was.Foreign, whole: true}, {policies: cut, cut: true}}
		if w.Cut {
			slices.Reverse(forms)
		}
	}
	var refused error
	for _, f := range forms {
		policies := slices.Clone(f.policies)
		for _, a := range acls {
			policies = append(policies, hns.NewACLPolicy(a))
		}
		err := w.Ask(hns.Request{Op: hns.OpACLUpdate, Endpoint: id, Policies: policies}).Err
		if err == nil {
			if w.Unchecked {
				return Done{Version: Unchecked, Cut: f.cut, Whole: f.whole}, nil
			}
			done, err := w.after(id, was, acls)
			done.Cut, done.Whole = f.cut, f.whole
			return done, err
		}
		err = w.failed(id, was, err)
		if _, not := errors.AsType[*Refused](err); !not {
			return Done{}, err
		}
		if refused == nil {
			refused = err // of what is sent first
		}
	}
	return Done{}, refused
}

// form is one way in which others' policies go back.
type form struct {
	policies   []hns.EndpointPolicy
	cut, whole bool
}

// documented returns policies with the ACLs cut to their documented fields, and
// whether any has another one.
func documented(policies []hns.EndpointPolicy) (out []hns.EndpointPolicy, shorter bool) {
	for _, p := range policies {
		cut, is := p.Documented()
		shorter = shorter || is
		out = append(out, cut)
	}
	return out, shorter
}

// view is an endpoint as it was read, its policies decoded once.
type view struct {
	hns.Endpoint
	hns.Parts
}

func (w Writer) view(e hns.Endpoint) view {
	if w.Parts == nil {
		return view{e, e.Parts(nil)}
	}
	return view{e, w.Parts(e)}
}

// with returns the version that the endpoint has with these rules of ours.
func (v view) with(ours []hns.ACL) hns.Version {
	return hns.Basis(v.Addrs, ours, v.Defaults)
}

// rules returns the version of all rules that are shown, whoever they are of. The
// bytes of others' policies may differ from read to read.
func (v view) rules() hns.Version {
	var all []hns.ACL
	for _, p := range v.Policies {
		if a, err := p.ACL(); err == nil {
			all = append(all, a)
		}
	}
	return hns.Basis(v.Addrs, all, hns.Defaults{})
}

// before reads the endpoint, unless it was seen, and refuses another one than from. Without
// a version nothing is written: that would be blind.
func (w Writer) before(id string, from hns.Version, seen *hns.Endpoint) (view, error) {
	if seen == nil {
		e, err := w.read(id)
		if err != nil {
			return view{}, fmt.Errorf("%w: %w", ErrUnread, err)
		}
		seen = &e
	}
	was := w.view(*seen)
	if !w.Unchecked && was.with(was.Ours) != from {
		return view{}, &Conflict{Endpoint: *seen}
	}
	return was, nil
}

// failed reads the endpoint after a write that HNS answered with an error, to see whether
// it was done all the same. After a call that broke off it reads nothing, as HNS may still
// be working on it: the caller has to.
func (w Writer) failed(id string, was view, err error) error {
	if hns.EndpointGone(err) || !hns.Answered(err) {
		return err
	}
	if w.Unchecked {
		return &Refused{err}
	}
	e, read := w.read(id)
	if read != nil {
		return w.unread(id, read)
	}
	is := w.view(e)
	if is.with(is.Ours) != was.with(was.Ours) || len(is.Foreign) < len(was.Foreign) {
		return &Conflict{Endpoint: e, Written: true, Cause: err}
	}
	return &Refused{err}
}

// after reads the endpoint and compares it with what it should be: it has these rules of
// ours, and no policy less of others. When the endpoint cannot be read, the outcome of the
// write is unknown, whatever the read's error, unless that says that the endpoint is gone.
func (w Writer) after(id string, was view, ours []hns.ACL) (Done, error) {
	want := was.with(ours)
	var shown view
	for try := range 2 {
		e, err := w.read(id)
		if err != nil {
			return Done{}, w.unread(id, err)
		}
		is := w.view(e)
		whole := len(is.Foreign) >= len(was.Foreign)
		if is.with(is.Ours) == want && whole {
			return Done{Version: want, Shown: &e, After: is.Parts}, nil
		}
		agree := try > 0 && whole && is.rules() == shown.rules() // a read that lacks a policy of another program teaches no spelling
		shown = is
		if agree && w.Learn != nil && w.Learn(was.Endpoint, e, ours) {
			if is = w.view(e); is.with(is.Ours) == want {
				return Done{Version: want, Shown: &e, After: is.Parts}, nil
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
