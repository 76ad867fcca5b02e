// Package versioned makes writes to HNS endpoints conditional on a version.
//
// HNS has no versions and no conditional write. A Writer comes as near as it
// can: it reads the endpoint right before a write, refuses to write to another
// one than the write was planned from, and reads it right after to see that it
// is what was asked for. Between the first read and the write somebody else may
// still come in: an Update then takes away what they wrote, an Add takes away
// nothing. The second read finds whatever of it is left.
//
// It does no more than that: what a conflict means for a plan is the caller's.
package versioned

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Endpoints are the calls of an hns.Client that a Writer makes: at most one read
// before and one after a write.
type Endpoints interface {
	GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error)
	AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) error
	ReplacePolicies(ctx context.Context, endpoint string, policies []hns.EndpointPolicy) error
}

// ErrUnread is why a write was not made: the endpoint could not be read before.
// It goes together with the class of the read's error.
var ErrUnread = errors.New("the endpoint could not be read before the write")

// Conflict is an hns.ErrConflict: the endpoint is not what it was thought to be.
type Conflict struct {
	// Endpoint is what it is, as the read that found out shows it.
	Endpoint hns.Endpoint
	// Written: the write was made, and then something else was there.
	Written bool
}

// Error implements error.
func (c *Conflict) Error() string {
	when := "before the write"
	if c.Written {
		when = "right after the write"
	}
	return fmt.Sprintf("hns: endpoint %s: %s: %v", c.Endpoint.ID, when, hns.ErrConflict)
}

// Unwrap returns the class.
func (c *Conflict) Unwrap() error { return hns.ErrConflict }

// Writer writes our rules to endpoints. It has no state.
type Writer struct {
	Client Endpoints
	// Unchecked leaves the versions out of account: no read before an Add, none
	// after a write, and nothing is refused. An Update still reads before, as the
	// policies of others have to be in it.
	Unchecked bool
}

// Unchecked is the version of whatever an unchecked Writer has written.
const Unchecked hns.Version = "unchecked"

// Add appends rules to the endpoint that has the version from. It returns the
// version that the endpoint has then.
//
// Errors are those of hns.Client.AddACLs, a *Conflict, and ErrUnread.
func (w Writer) Add(ctx context.Context, id string, from hns.Version, acls []hns.ACL) (hns.Version, error) {
	if w.Unchecked {
		return Unchecked, w.Client.AddACLs(ctx, id, acls)
	}
	was, err := w.before(ctx, id, from)
	if err != nil {
		return "", err
	}
	if err := w.Client.AddACLs(ctx, id, acls); err != nil {
		return "", err
	}
	return w.after(ctx, id, was.with(slices.Concat(was.ours, acls)))
}

// Replace makes acls all that the endpoint with the version from has of ours.
// What others have there goes back to HNS byte for byte as it was read. It
// returns the version that the endpoint has then.
//
// Errors are those of hns.Client.ReplacePolicies, a *Conflict, and ErrUnread.
func (w Writer) Replace(ctx context.Context, id string, from hns.Version, acls []hns.ACL) (hns.Version, error) {
	was, err := w.before(ctx, id, from)
	if err != nil {
		return "", err
	}
	policies := slices.Clone(was.foreign)
	for _, a := range acls {
		policies = append(policies, hns.NewACLPolicy(a))
	}
	if err := w.Client.ReplacePolicies(ctx, id, policies); err != nil {
		return "", err
	}
	if w.Unchecked {
		return Unchecked, nil
	}
	return w.after(ctx, id, was.with(acls))
}

// view is an endpoint as it was read, its policies decoded once.
type view struct {
	addrs   []netip.Addr
	ours    []hns.ACL
	foreign []hns.EndpointPolicy
}

// with returns the version that the endpoint has with these rules of ours.
func (v view) with(ours []hns.ACL) hns.Version { return hns.VersionOf(v.addrs, ours, v.foreign) }

// before reads the endpoint and refuses another one than from. Without a
// version nothing is written: that would be blind.
func (w Writer) before(ctx context.Context, id string, from hns.Version) (view, error) {
	e, err := w.Client.GetEndpoint(ctx, id)
	if err != nil {
		return view{}, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	was := view{addrs: e.Addrs}
	was.ours, was.foreign = e.Split()
	if !w.Unchecked && was.with(was.ours) != from {
		return view{}, &Conflict{Endpoint: e}
	}
	return was, nil
}

// after reads the endpoint and compares it with what it should be. One that
// cannot be read then has an unknown outcome, whatever the read's error; one that
// is gone is gone.
func (w Writer) after(ctx context.Context, id string, want hns.Version) (hns.Version, error) {
	e, err := w.Client.GetEndpoint(ctx, id)
	switch {
	case hns.EndpointGone(err):
		return "", err
	case err != nil:
		return "", &hns.OpError{Op: hns.OpEndpointGet, Kind: hns.KindEndpoint, ID: id,
			Err: fmt.Errorf("%w: written, and not read after it: %v", hns.ErrUnavailable, err)} //nolint:errorlint // its class speaks of the read, not of the write
	case e.Version() != want:
		return "", &Conflict{Endpoint: e, Written: true}
	}
	return want, nil
}
