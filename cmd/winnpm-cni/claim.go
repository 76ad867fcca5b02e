package main

import (
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/winnpm/winnpm/pkg/node"
)

// prevResult is what is read of a result. From 0.3.0 to 1.1.0 it is written in one way.
type prevResult struct {
	IPs []struct {
		Address   netip.Prefix `json:"address"`
		Interface *int         `json:"interface"`
	} `json:"ips"`
	Interfaces []struct {
		Name string `json:"name"`
	} `json:"interfaces"`
}

// endpoint is what the CNI calls the interface of the first address, "" if it does not.
func (r prevResult) endpoint() string {
	if len(r.IPs) == 0 || len(r.Interfaces) == 0 {
		return ""
	}
	i := 0
	if at := r.IPs[0].Interface; at != nil {
		i = *at
	}
	if i < 0 || i >= len(r.Interfaces) {
		return ""
	}
	return r.Interfaces[i].Name
}

// podArgs are what the kubelet's runtimes put into CNI_ARGS. types.LoadArgs finds fields
// by the names of keys.
type podArgs struct {
	types.CommonArgs

	K8S_POD_NAMESPACE          types.UnmarshallableString //nolint:staticcheck // a key
	K8S_POD_NAME               types.UnmarshallableString //nolint:staticcheck // a key
	K8S_POD_UID                types.UnmarshallableString //nolint:staticcheck // a key
	K8S_POD_INFRA_CONTAINER_ID types.UnmarshallableString //nolint:staticcheck // a key
}

// claimOf makes a claim of what the runtime says, without its wait. The name is "" when
// the container is none of Kubernetes.
func claimOf(args *skel.CmdArgs, r prevResult) (node.Claim, error) {
	var pod podArgs
	if err := types.LoadArgs(args.Args, &pod); err != nil {
		return node.Claim{}, types.NewError(types.ErrInvalidEnvironmentVariables, "winnpm-cni: CNI_ARGS: "+err.Error(), "")
	}
	c := node.Claim{
		UID:         string(pod.K8S_POD_UID),
		Namespace:   string(pod.K8S_POD_NAMESPACE),
		Name:        string(pod.K8S_POD_NAME),
		ContainerID: string(pod.K8S_POD_INFRA_CONTAINER_ID),
		Netns:       args.Netns,
		Endpoint:    r.endpoint(),
	}
	if c.ContainerID == "" {
		c.ContainerID = args.ContainerID
	}
	for _, ip := range r.IPs {
		c.Addresses = append(c.Addresses, ip.Address.Addr())
	}
	return c, nil
}
