package hcsadapter

import (
	"encoding/json"
	"fmt"
	"strings"
)

// library is HNS as its DLLs offer it: each method is one call of one export. A call takes from
// milliseconds to minutes and cannot be cancelled. The worker makes one call at a time. An error
// with which HNS answers is a *failure.
type library interface {
	enumerate(k kind, query string) (ids string, err error)
	// open returns the handle of an object, which close closes. A handle that comes with an error
	// is open too.
	open(k kind, id string) (handle, error)
	query(k kind, h handle, query string) (properties string, err error)
	modify(k kind, h handle, request string) error
	close(k kind, h handle) error
}

// kind is a kind of object, as in the names of the exports.
type kind string

const (
	kindNetwork  kind = "Network"
	kindEndpoint kind = "Endpoint"
)

// handle is an object that HNS keeps open for this process; 0 means no handle.
type handle uintptr

// failure is an error with which HNS answered.
type failure struct {
	code uint32 // HRESULT; 0: HNS reported success and an error record
	err  error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the error without the code.
func (f *failure) Unwrap() error { return f.err }

// service makes requests out of calls. After a request no handle is open, however the request
// ended, except the handle of a held endpoint.
type service struct{ library }

// opened opens an object. The caller must close the handle.
func (s service) opened(k kind, id string) (handle, error) {
	h, err := s.open(k, id)
	switch {
	case err != nil && h != 0:
		_ = s.close(k, h)
		return 0, err
	case err == nil && h == 0:
		return 0, fmt.Errorf("HcnOpen%s: success without a handle", k)
	}
	return h, err
}

// with opens an object for one use. It ignores an error of the close: the use is done, and there is
// no other way to close the handle.
func (s service) with(k kind, id string, use func(handle) error) error {
	h, err := s.opened(k, id)
	if err != nil {
		return err
	}
	defer func() { _ = s.close(k, h) }()
	return use(h)
}

// ids returns the GUIDs of the objects that match a filter, in any order.
func (s service) ids(k kind, filter string) ([]string, error) {
	text, err := s.enumerate(k, hcnQuery(filter))
	if err != nil {
		return nil, err
	}
	var ids []string
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return nil, fmt.Errorf("HcnEnumerate%ss: %w", k, err)
	}
	return ids, nil
}

// show reads an open object with all its policies.
func (s service) show(k kind, h handle, into any) error {
	text, err := s.query(k, h, hcnQuery(""))
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("HcnQuery%sProperties: %w", k, err)
	}
	return nil
}

// networks reads the networks that match a filter, and returns the ones that want accepts. want
// compares again, because HNS may match the filter less strictly.
func (s service) networks(filter string, want func(network) bool) ([]network, error) {
	ids, err := s.ids(kindNetwork, filter)
	if err != nil {
		return nil, err
	}
	var out []network
	for _, id := range ids {
		var n network
		err := s.with(kindNetwork, id, func(h handle) error { return s.show(kindNetwork, h, &n) })
		switch {
		case codeOf(err) == codeNetworkNotFound: // deleted in the meantime
		case err != nil:
			return nil, err
		case !strings.EqualFold(n.ID, id):
			return nil, fmt.Errorf("HNS shows network %q for %s", n.ID, id)
		case want(n):
			out = append(out, n)
		}
	}
	return out, nil
}

// changeNetwork changes the policies of a network with one Modify. Its error is the error of the
// open or of the Modify, never of the close.
func (s service) changeNetwork(id, request string) error {
	return s.with(kindNetwork, id, func(h handle) error { return s.modify(kindNetwork, h, request) })
}
