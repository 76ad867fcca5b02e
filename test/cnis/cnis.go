// Package cnis has what five CNIs make in HNS: the network of the pods, the networks beside
// it, and what an endpoint has before anybody writes a policy to it. It is for tests that are
// to hold on every one of them.
//
// The settings are in HNS's newer schema, as their CNIs send them. What HNS adds when it shows
// them is not known but for azure's (docs/windows.md).
package cnis

import (
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
}

// Network is one of HNS.
type Network struct{ Name, Type string }

// All returns the CNIs. Each call returns values of its own.
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

// outBoundNAT hides the pod's address, but for two destinations.
func outBoundNAT(pods, services string) hns.EndpointPolicy {
	return hns.EndpointPolicy{Type: "OutBoundNAT", Settings: fmt.Appendf(nil, `{"Exceptions":[%q,%q]}`, pods, services)}
}

// route has traffic to a block encapsulated.
func route(block string) hns.EndpointPolicy {
	return hns.EndpointPolicy{Type: "SDNRoute", Settings: fmt.Appendf(nil, `{"DestinationPrefix":%q,"NeedEncap":true}`, block)}
}
