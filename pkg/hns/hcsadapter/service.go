package hcsadapter

import (
	"encoding/json"

	"github.com/winnpm/winnpm/pkg/hns"
)

// service is HNS as hcn offers it. A call takes from milliseconds to minutes
// and cannot be cancelled; the worker makes one at a time. An error that HNS
// itself returned is a *failure.
type service interface {
	// networks and endpoints return what matches an HCN filter, in no order.
	// No match is no error. They fail whole when one object vanishes meanwhile.
	networks(filter string) ([]network, error)
	endpoints(filter string) ([]endpoint, error)

	// modifyNetwork and modifyEndpoint change policies. hcn reads the whole
	// object again after the write, so that an error may come after it was done.
	modifyNetwork(id string, verb hns.Verb, settings json.RawMessage) error
	modifyEndpoint(id string, verb hns.Verb, settings json.RawMessage) error

	version() (Version, error)
}

// network is a network as HNS shows it.
type network struct {
	id, name string
	policies []hns.EndpointPolicy // the same shape as those of an endpoint
}

// endpoint is an endpoint as HNS shows it.
type endpoint struct {
	id, network string // GUIDs
	remote      bool
	addrs       []string
	policies    []hns.EndpointPolicy
}

// failure is an answer of HNS that is an error.
type failure struct {
	code uint32 // HRESULT; 0: HNS reported success and an error record
	err  error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns what hcn made of the answer.
func (f *failure) Unwrap() error { return f.err }
