package main

import (
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/winnpm/winnpm/pkg/node"
)

// prevResult has the fields that are read of a result. Their format is the same in the CNI versions
// 0.3.0 to 1.1.0.
type prevResult struct {
	IPs []struct {
		Address   netip.Prefix `json:"address"`
		Interface *int         `json:"interface"`
	} `json:"ips"`
	Interfaces []struct {
		Name string `json:"name"`
	} `json:"interfaces"`
}

// endpoint returns the name of the interface of the first address, or "" if the result has none.
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

// podArgs are the arguments that container runtimes pass in CNI_ARGS. types.LoadArgs matches keys
// with names of fields.
type podArgs struct {
	types.CommonArgs

	K8S_POD_NAMESPACE          types.UnmarshallableString //nolint:staticcheck // a key
	K8S_POD_NAME               types.UnmarshallableString //nolint:staticcheck // a key
	K8S_POD_UID                types.UnmarshallableString //nolint:staticcheck // a key
	K8S_POD_INFRA_CONTAINER_ID types.UnmarshallableString //nolint:staticcheck // a key
}

// claimOf returns the claim of a container, without its wait. Its name is "" if the container is
// not a pod.
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
