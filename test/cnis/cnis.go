// Package cnis has what five CNIs make in HNS: the network of the pods, the networks beside
// it, and what an endpoint has before anybody writes a policy to it. It is for tests that are
// to hold on every one of them.
//
// The settings are in HNS's newer schema, as their CNIs send them. What HNS adds when it shows
// them is not known but for azure's (docs/windows.md).
package cnis

import (
	"encoding/json"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// CNI is a node's pod network.
type CNI struct {
	Name     string
	Network  Network   // of the pods
	Beside   []Network // others of the node
	Endpoint []hns.EndpointPolicy
	Source   string
}

// Network is one of HNS.
type Network struct{ Name, Type string }

// String returns the name of the CNI.
func (c CNI) String() string { return c.Name }

// All returns the CNIs. Each call returns values of its own.
func All() []CNI {
	nat := Network{"nat", "NAT"}
	return []CNI{
		{
			Name: "azure", Network: Network{"azure", "L2Bridge"}, Beside: []Network{{"ext", "L2Bridge"}, nat},
			Endpoint: append(hnssim.DefaultForeign(), outBoundNAT("10.240.0.0/12", "10.0.0.0/16")),
			Source:   "https://github.com/Azure/AgentBaker staging/cse/windows/azurecnifunc.ps1 (the wire server, the open pair, ext), https://github.com/Azure/azure-container-networking network/network_windows.go (L2Bridge)",
		},
		{
			Name: "azure overlay", Network: Network{"azure", "L2Bridge"}, Beside: []Network{{"ext", "L2Bridge"}},
			Endpoint: append(hnssim.DefaultForeign(), outBoundNAT("10.244.0.0/16", "10.240.0.0/16"), route("10.0.0.0/16")),
			Source:   "https://github.com/Azure/azure-container-networking cni/azure-windows-swift-overlay.conflist: ipam mode v4overlay over the same network",
		},
		{
			Name: "Calico", Network: Network{"Calico", "L2Bridge"}, Beside: []Network{{"External", "L2Bridge"}},
			Endpoint: []hns.EndpointPolicy{outBoundNAT("10.0.0.0/16", "192.168.0.0/16"), route("10.0.0.0/16")},
			Source:   "https://github.com/projectcalico/calico node/windows-packaging, cni.conf.template: OutBoundNAT and SDNROUTE, no ACL; https://github.com/Azure/azure-container-networking npm/pkg/dataplane/policies/policymanager_windows.go (none of the open pair)",
		},
		{
			Name: "flannel l2bridge", Network: Network{"cbr0", "L2Bridge"}, Beside: []Network{nat},
			Endpoint: []hns.EndpointPolicy{outBoundNAT("10.244.0.0/16", "10.96.0.0/12"), route("10.96.0.0/12"), route("10.9.0.1/32")},
			Source:   "https://github.com/containernetworking/plugins plugins/main/windows/win-bridge/sample-v2.conf, which flannel delegates to",
		},
		{
			Name: "flannel vxlan", Network: Network{"vxlan0", "Overlay"}, Beside: []Network{{"External", "Overlay"}, nat},
			Endpoint: []hns.EndpointPolicy{
				outBoundNAT("10.244.0.0/16", "10.96.0.0/12"), route("10.96.0.0/12"),
				policy("ProviderAddress", map[string]any{"ProviderAddress": "10.9.0.1"}),
			},
			Source: "https://github.com/containernetworking/plugins plugins/main/windows/win-overlay/sample-v2.conf; https://github.com/kubernetes-sigs/sig-windows-tools hostprocess/flannel",
		},
	}
}

// outBoundNAT hides the pod's address, but for some destinations.
func outBoundNAT(exceptions ...string) hns.EndpointPolicy {
	return policy("OutBoundNAT", map[string]any{"Exceptions": exceptions})
}

// route has traffic to a block encapsulated.
func route(block string) hns.EndpointPolicy {
	return policy("SDNRoute", map[string]any{"DestinationPrefix": block, "NeedEncap": true})
}

func policy(kind string, settings any) hns.EndpointPolicy {
	text, err := json.Marshal(settings)
	if err != nil {
		panic(fmt.Sprintf("BUG: settings always encode: %v", err))
	}
	return hns.EndpointPolicy{Type: kind, Settings: text}
}
