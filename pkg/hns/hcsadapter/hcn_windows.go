package hcsadapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns"
)

// New returns the client of a network of this node and starts its worker, which
// Close ends. The network need not be there yet. ErrMissing: this system has
// no usable HNS.
func New(o Options) (*Adapter, error) {
	// A missing DLL is an ordinary error of hcn, but a missing export makes it
	// panic. So everything that is ever called is looked for first.
	if err := find("computenetwork.dll",
		"HcnEnumerateNetworks", "HcnOpenNetwork", "HcnQueryNetworkProperties", "HcnModifyNetwork", "HcnCloseNetwork",
		"HcnEnumerateEndpoints", "HcnOpenEndpoint", "HcnQueryEndpointProperties", "HcnModifyEndpoint", "HcnCloseEndpoint",
	); err != nil {
		return nil, err
	}
	if err := find("api-ms-win-core-com-l1-1-0.dll", "CoTaskMemFree"); err != nil {
		return nil, err
	}
	return newAdapter(o, hcnService{}), nil
}

// find looks for exports of a DLL of the system.
func find(dll string, exports ...string) error {
	library := windows.NewLazySystemDLL(dll)
	if err := library.Load(); err != nil {
		return fmt.Errorf("%w: load %s: %w", ErrMissing, dll, err)
	}
	for _, name := range exports {
		if err := library.NewProc(name).Find(); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	return nil
}

// hcnService calls hcn. Under the log level of logrus that is set when nobody
// sets one, these calls of hcn log nothing.
type hcnService struct{}

func (hcnService) networks(filter string) ([]network, error) {
	found, err := hcn.ListNetworksQuery(query(filter))
	if err != nil {
		return nil, translate(err)
	}
	out := make([]network, len(found))
	for i, n := range found {
		out[i] = network{id: n.Id, name: n.Name}
		for _, p := range n.Policies {
			out[i].policies = append(out[i].policies, hns.EndpointPolicy{Type: string(p.Type), Settings: p.Settings})
		}
	}
	return out, nil
}

func (hcnService) endpoints(filter string) ([]endpoint, error) {
	found, err := hcn.ListEndpointsQuery(query(filter))
	if err != nil {
		return nil, translate(err)
	}
	out := make([]endpoint, len(found))
	for i, e := range found {
		out[i] = endpoint{id: e.Id, network: e.HostComputeNetwork, remote: e.Flags&hcn.EndpointFlagsRemoteEndpoint != 0}
		for _, c := range e.IpConfigurations {
			out[i].addrs = append(out[i].addrs, c.IpAddress)
		}
		for _, p := range e.Policies {
			out[i].policies = append(out[i].policies, hns.EndpointPolicy{Type: string(p.Type), Settings: p.Settings})
		}
	}
	return out, nil
}

func query(filter string) hcn.HostComputeQuery {
	return hcn.HostComputeQuery{SchemaVersion: hcn.V2SchemaVersion(), Filter: filter}
}

func (hcnService) modifyNetwork(id string, verb hns.Verb, settings json.RawMessage) error {
	n := hcn.HostComputeNetwork{Id: id} // nothing else of it is used
	return translate(n.ModifyNetworkSettings(&hcn.ModifyNetworkSettingRequest{
		ResourceType: hcn.NetworkResourceTypePolicy,
		RequestType:  hcn.RequestType(verb),
		Settings:     settings,
	}))
}

func (hcnService) modifyEndpoint(id string, verb hns.Verb, settings json.RawMessage) error {
	return translate(hcn.ModifyEndpointSettings(id, &hcn.ModifyEndpointSettingRequest{
		ResourceType: hcn.EndpointResourceTypePolicy,
		RequestType:  hcn.RequestType(verb),
		Settings:     settings,
	}))
}

func (hcnService) version() (Version, error) {
	if err := find("vmcompute.dll", "HNSCall"); err != nil {
		return Version{}, err
	}
	g, err := hcn.GetGlobals()
	if err != nil {
		return Version{}, err // of a type that hides its code
	}
	return Version{Major: g.Version.Major, Minor: g.Version.Minor}, nil
}

// translate gives an error of hcn its HRESULT back. hcn has turned 0x8007xxxx
// into the Windows error xxxx, and carries nil for S_OK with an error record.
func translate(err error) error {
	answer, ok := errors.AsType[*hcn.HcnError](err)
	if !ok {
		return err // nil, or not an answer of HNS: an ID or an answer that does not decode
	}
	errno, ok := errors.AsType[syscall.Errno](answer.Err)
	if !ok {
		return &failure{err: fmt.Errorf("success with an error record: %w", err)}
	}
	return &failure{code: hresult(uint32(errno)), err: err}
}
