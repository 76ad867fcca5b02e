package hnstest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// NetworkName is the name of the network that a Node creates.
const NetworkName = "winnpm-doctor"

// The GUIDs of all objects that a Node creates begin with guids. It never writes to other objects.
const (
	guids        = "d0c70000-5f3a-4c1e-9b6d-77696e6e"
	ownNetwork   = guids + "7001"
	ownNamespace = guids + "7002"
)

// Node creates the objects that questions need, like a CNI.
type Node struct {
	HNS  HNS
	made int // number of endpoints created so far
}

// Endpoint describes an endpoint that a question needs.
type Endpoint struct {
	Addrs    []netip.Addr
	Detached bool // exists, but is not attached to a namespace
	Remote   bool // represents an endpoint of another node
	// Foreign are the initial policies of the endpoint. HNS may return them in another form.
	Foreign []hns.EndpointPolicy
}

// Make removes the objects of an earlier run, and creates a network and a namespace. If it fails, call
// Clean.
func (n *Node) Make(kind string) error {
	if err := n.Clean(); err != nil {
		return fmt.Errorf("an earlier run has left something: %w", err)
	}
	err := n.HNS.Create("Network", ownNetwork, 0, fmt.Sprintf(`{"Name":%q,"Type":%q,"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.90.0.0/16",`+
		`"Routes":[{"NextHop":"10.90.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],`+schemaV2+`}`, NetworkName, kind))
	if err == nil {
		err = n.HNS.Create("Namespace", ownNamespace, 0, `{"Type":"Host",`+schemaV2+`}`)
	}
	return err
}

// CreateEndpoint creates an endpoint, and attaches it like containerd. It returns the endpoint's ID in the
// spelling of HNS. If it fails, it leaves no endpoint behind.
func (n *Node) CreateEndpoint(e Endpoint) (string, error) {
	n.made++
	id := fmt.Sprintf("%s8%03x", guids, n.made)
	var addrs, policies []string
	for _, a := range e.Addrs {
		addrs = append(addrs, fmt.Sprintf(`{"IpAddress":%q,"PrefixLength":16}`, a))
	}
	for _, f := range e.Foreign {
		policies = append(policies, fmt.Sprintf(`{"Type":%q,"Settings":%s}`, f.Type, f.Settings))
	}
	flags := map[bool]int{true: 1}[e.Remote]
	err := n.HNS.Open("Network", ownNetwork, func(in uint64) error {
		return n.HNS.Create("Endpoint", id, in, fmt.Sprintf(`{"Name":%q,"HostComputeNetwork":%q,"Policies":[%s],"IpConfigurations":[%s],"Flags":%d,`+schemaV2+`}`,
			NetworkName, ownNetwork, strings.Join(policies, ","), strings.Join(addrs, ","), flags))
	})
	if err == nil && !e.Detached && !e.Remote {
		err = n.HNS.Open("Namespace", ownNamespace, func(space uint64) error {
			_, err := n.HNS.Do("HcnModifyNamespace", "", space, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+id+`"}}`)
			return err
		})
	}
	if err != nil {
		return "", errors.Join(err, n.HNS.Delete("Endpoint", id))
	}
	ids, err := n.HNS.List("Endpoint")
	if at := slices.IndexFunc(ids, func(listed string) bool { return strings.EqualFold(listed, id) }); at >= 0 {
		id = ids[at]
	}
	return id, err
}

// Clean removes all objects of this run and of earlier, interrupted runs.
func (n *Node) Clean() error {
	var failed []error
	for _, kind := range []string{"Endpoint", "Namespace", "Network"} {
		ids, err := n.HNS.List(kind)
		failed = append(failed, err)
		for _, id := range ids {
			if strings.HasPrefix(strings.ToLower(id), guids) {
				failed = append(failed, n.HNS.Delete(kind, id))
			}
		}
	}
	return errors.Join(failed...)
}
