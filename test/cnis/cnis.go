// Package cnis has the objects that five CNIs create in HNS: the network of the pods, other networks, and
// the initial policies of an endpoint. It is for tests that must pass with every CNI.
//
// The settings are in HNS's newer schema, as the CNIs send them. The fields that HNS adds when it returns
// them are known only for azure (docs/windows.md).
package cnis

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// CNI is a node's pod network.
type CNI struct {
	Name     string
	Network  Network   // network of the pods
	Beside   []Network // other networks of the node
	Endpoint []hns.EndpointPolicy
}

// Network is a network of HNS.
type Network struct{ Name, Type string }

// All returns new copies of the CNIs.
func All() []CNI {
	nat := Network{"nat", "NAT"}
	return []CNI{
		// https://github.com/Azure/AgentBaker staging/cse/windows/azurecnifunc.ps1 (the wire server, the open pair, ext),
		// https://github.com/Azure/azure-container-networking network/network_windows.go (L2Bridge)
		{"azure", Network{"azure", "L2Bridge"}, []Network{{"ext", "L2Bridge"}, nat},
			append(hnssim.DefaultForeign(), outBoundNAT("10.240.0.0/12", "10.0.0.0/16"))},
		// https://github.com/Azure/azure-container-networking cni/azure-windows-swift-overlay.conflist: ipam mode v4overlay over the same network
		{"azure overlay", Network{"azure", "L2Bridge"}, []Network{{"ext", "L2Bridge"}},
			append(hnssim.DefaultForeign(), outBoundNAT("10.244.0.0/16", "10.240.0.0/16"), route("10.0.0.0/16"))},
		// https://github.com/projectcalico/calico node/windows-packaging, cni.conf.template: OutBoundNAT and SDNROUTE, no ACL;
		// https://github.com/Azure/azure-container-networking npm/pkg/dataplane/policies/policymanager_windows.go (none of the open pair)
		{"Calico", Network{"Calico", "L2Bridge"}, []Network{{"External", "L2Bridge"}},
			[]hns.EndpointPolicy{outBoundNAT("10.0.0.0/16", "192.168.0.0/16"), route("10.0.0.0/16")}},
		// https://github.com/containernetworking/plugins plugins/main/windows/win-bridge/sample-v2.conf, which flannel delegates to
		{"flannel l2bridge", Network{"cbr0", "L2Bridge"}, []Network{nat},
			[]hns.EndpointPolicy{outBoundNAT("10.244.0.0/16", "10.96.0.0/12"), route("10.96.0.0/12"), route("10.9.0.1/32")}},
		// https://github.com/containernetworking/plugins plugins/main/windows/win-overlay/sample-v2.conf;
		// https://github.com/kubernetes-sigs/sig-windows-tools hostprocess/flannel
		{"flannel vxlan", Network{"vxlan0", "Overlay"}, []Network{{"External", "Overlay"}, nat},
			[]hns.EndpointPolicy{outBoundNAT("10.244.0.0/16", "10.96.0.0/12"), route("10.96.0.0/12"), {Type: "ProviderAddress", Settings: []byte(`{"ProviderAddress":"10.9.0.1"}`)}}},
	}
}

// outBoundNAT returns the policy that translates the pod's address, except for two destinations.
func outBoundNAT(pods, services string) hns.EndpointPolicy {
	return hns.EndpointPolicy{Type: "OutBoundNAT", Settings: fmt.Appendf(nil, `{"Exceptions":[%q,%q]}`, pods, services)}
}

// route returns the policy that encapsulates traffic to a block.
func route(block string) hns.EndpointPolicy {
	return hns.EndpointPolicy{Type: "SDNRoute", Settings: fmt.Appendf(nil, `{"DestinationPrefix":%q,"NeedEncap":true}`, block)}
}
