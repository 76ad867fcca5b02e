package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// errNothing is the cause of an ErrInvalid for a request without content. Such a request is not
// sent: the reaction of HNS is unknown.
var errNothing = errors.New("a request without policies")

// ModifySets implements hns.Client.
func (a *Adapter) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	op := hns.OpSets(verb)
	if len(sets) == 0 {
		return &hns.OpError{Op: op, Kind: hns.KindNetwork, Err: as(hns.ErrInvalid, errNothing)}
	}
	ids := make([]string, len(sets))
	for i, s := range sets {
		ids[i] = s.ID
	}
	request := encodeSets(verb, sets)
	fail := func(class error, code uint32) error {
		return &hns.OpError{Op: op, Kind: hns.KindSet, ID: one(ids), Code: code, Err: class}
	}
	id, err := a.networkID(ctx)
	if err != nil {
		return fail(unread(err), codeOf(err))
	}
	_, err = call(ctx, a.worker, op, func() (struct{}, error) {
		return struct{}{}, a.service.changeNetwork(id, request)
	})
	if err != nil {
		return fail(a.setClass(ctx, verb, sets, err), codeOf(err))
	}
	return nil
}

// setClass wraps the error of a set write in its class. Only a code that fits the verb says that
// the write was rejected. If the network is gone, all its sets are gone with it, and the error is
// ErrUnavailable. Any other answer leaves the outcome unknown.
func (a *Adapter) setClass(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy, err error) error {
	a.forgetNetwork(err)
	switch code, class := codeOf(err), classOf(err); {
	case class == hns.RefusesContent && sets[0].Type == hns.NestedIPSet && a.lacksSet(ctx, verb, sets):
		return as(hns.ErrNotFound, err) // like a rule, a nested set is not at fault for a missing member
	case class == hns.RefusesContent:
		return as(hns.ErrInvalid, err)
	case class == hns.SaysExists && verb == hns.Add:
		return as(hns.ErrAlreadyExists, err)
	case class == hns.SaysUsed && verb == hns.Remove:
		return as(hns.ErrInUse, err)
	case code == codePolicyNotFound:
		return as(hns.ErrNotFound, err)
	case code == codeElementNotFound && a.lacksSet(ctx, verb, sets):
		return as(hns.ErrNotFound, err)
	case code == codeNetworkNotFound:
		return unavailable(err)
	}
	return unknown(err)
}

// lacksSet reports whether a set that a request needs is missing. That explains the code "element
// not found", which alone does not prove that nothing was done, because it may be about any object.
// If the network was created again, lacksSet returns false: all sets are gone with the old network,
// which explains nothing.
func (a *Adapter) lacksSet(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) bool {
	a.mu.Lock()
	before := a.id
	a.mu.Unlock()
	n, err := a.findNetwork(ctx)
	if err != nil || n.ID != before {
		return false
	}
	lacks := n.lacks()
	if verb == hns.Remove {
		// If several sets are all gone, the request itself may have removed them.
		gone := 0
		for _, s := range sets {
			if lacks(s.ID) {
				gone++
			}
		}
		return gone > 0 && (gone < len(sets) || len(sets) == 1)
	}
	return slices.ContainsFunc(sets, func(s hns.SetPolicy) bool {
		return s.Type == hns.NestedIPSet && slices.ContainsFunc(s.Values, lacks)
	})
}

// AddACLs implements hns.Client.
func (a *Adapter) AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	const op = hns.OpACLAdd
	if len(acls) == 0 {
		return &hns.OpError{Op: op, Kind: hns.KindNetwork, ID: endpoint, Err: as(hns.ErrInvalid, errNothing)}
	}
	list := make([]hns.EndpointPolicy, len(acls))
	for i, acl := range acls {
		list[i] = hns.NewACLPolicy(acl)
	}
	return a.modifyEndpoint(ctx, aclWrite{op: op, verb: hns.Add, endpoint: endpoint, acls: acls}, list)
}

// ReplacePolicies implements hns.Client.
func (a *Adapter) ReplacePolicies(ctx context.Context, endpoint string, list []hns.EndpointPolicy) error {
	ours, _ := hns.Endpoint{Policies: list}.Split()
	return a.modifyEndpoint(ctx, aclWrite{op: hns.OpACLUpdate, verb: hns.Update, endpoint: endpoint, acls: ours}, list)
}

// aclWrite describes a write to an endpoint, for its error.
type aclWrite struct {
	op       string
	verb     hns.Verb
	endpoint string
	acls     []hns.ACL // ours
}

func (a *Adapter) modifyEndpoint(ctx context.Context, w aclWrite, list []hns.EndpointPolicy) error {
	request, err := encodePolicies(w.verb, list)
	if err != nil {
		return w.fail(hns.KindACL, as(hns.ErrInvalid, err))
	}
	hold := a.holdOf(w.endpoint)
	_, err = call(ctx, a.worker, w.op, func() (struct{}, error) {
		return struct{}{}, a.service.changeEndpoint(w.endpoint, hold, request)
	})
	if err == nil {
		return nil
	}
	a.forgetNetwork(err)
	switch class := classOf(err); {
	case class == hns.RefusesContent && a.lacksNamed(ctx, w): // it is unknown which of the codes HNS returns for a missing set
		return w.fail(hns.KindSet, as(hns.ErrNotFound, err))
	case class == hns.RefusesContent:
		return w.fail(hns.KindACL, as(hns.ErrInvalid, err))
	case class == hns.RefusesEndpoint:
		return w.fail(hns.KindEndpoint, as(hns.ErrInvalid, err))
	case vanished(err), codeOf(err) == codePolicyNotFound:
		return a.whatIsMissing(ctx, w, err)
	}
	return w.fail(hns.KindEndpoint, unknown(err))
}

// whatIsMissing decides what a "not found" is about: the endpoint if a read says that it is gone,
// or a set if one that a rule names is missing. Otherwise the code says nothing, and the outcome is
// unknown.
func (a *Adapter) whatIsMissing(ctx context.Context, w aclWrite, err error) error {
	_, read := a.findEndpoint(ctx, w.endpoint)
	switch {
	case errors.Is(read, errNoEndpoint):
		return w.fail(hns.KindEndpoint, as(hns.ErrNotFound, err))
	case read == nil && codeOf(err) != codeEndpointNotFound && a.lacksNamed(ctx, w):
		return w.fail(hns.KindSet, as(hns.ErrNotFound, err))
	}
	return w.fail(hns.KindEndpoint, unknown(err))
}

// lacksNamed reports whether a set that a rule names is missing. Rules that HNS rejects for this
// reason are not at fault: if they were quarantined, they would stay so after the set exists again.
func (a *Adapter) lacksNamed(ctx context.Context, w aclWrite) bool {
	sets := w.sets()
	if len(sets) == 0 {
		return false
	}
	n, err := a.findNetwork(ctx)
	return err == nil && slices.ContainsFunc(sets, n.lacks())
}

// sets returns the IDs of the sets that the rules name.
func (w aclWrite) sets() []string {
	var ids []string
	for _, acl := range w.acls {
		ids = append(ids, acl.SetIDs()...)
	}
	return ids
}

// fail returns the error of the write. err is in a class, and kind is the kind of the object that
// it is about.
func (w aclWrite) fail(kind string, err error) error {
	ids := []string{w.endpoint}
	switch kind {
	case hns.KindSet:
		ids = w.sets()
	case hns.KindACL:
		ids = nil
		for _, acl := range w.acls {
			ids = append(ids, acl.ID)
		}
	}
	return &hns.OpError{Op: w.op, Kind: kind, ID: one(ids), Code: codeOf(err), Err: err}
}

// one returns the ID of the object that an error is about. HNS never says which of several objects
// it means.
func one(ids []string) string {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return ids[0]
	}
	return fmt.Sprintf("one of %d", len(ids))
}
