package hnstest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// The GUIDs of all objects that a Node makes begin with guids, and its networks have
// the names below. It never writes to any other object.
const (
	NetworkName = "winnpm-doctor"

	guids        = "d0c70000-5f3a-4c1e-9b6d-77696e6e"
	ownNetwork   = guids + "7001"
	ownNamespace = guids + "7002"
	otherNetwork = guids + "7003"
	otherName    = NetworkName + "-other"
)

// Node makes the objects that questions are about, as a CNI does.
type Node struct {
	HNS  HNS
	made int // number of endpoints made so far
}

// Endpoint describes an endpoint that a question needs.
type Endpoint struct {
	Addrs     []netip.Addr
	Detached  bool // exists, but is not attached to a namespace
	Remote    bool // represents an endpoint of another node
	Elsewhere bool // is in a second network, with an address of that one
	// Foreign are policies that the endpoint has from the start. HNS may show them in
	// another form.
	Foreign []hns.EndpointPolicy
}

// Make takes away what an earlier run left, and makes a network and a namespace.
func (n *Node) Make(kind string) error {
	if err := n.Clean(); err != nil {
		return fmt.Errorf("an earlier run has left something: %w", err)
	}
	err := n.makeNetwork(ownNetwork, NetworkName, kind, "10.90")
	if err == nil {
		err = n.HNS.Create("Namespace", ownNamespace, 0, `{"Type":"Host",`+schemaV2+`}`)
	}
	if err != nil {
		return errors.Join(err, n.Clean())
	}
	return nil
}

func (n *Node) makeNetwork(id, name, kind, subnet string) error {
	return n.HNS.Create("Network", id, 0, fmt.Sprintf(`{"Name":%q,"Type":%q,"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"%s.0.0/16",`+
		`"Routes":[{"NextHop":"%[3]s.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],`+schemaV2+`}`, name, kind, subnet))
}

// CreateEndpoint makes an endpoint, and attaches it as containerd does. It returns the endpoint's ID
// in the spelling of HNS. If it fails, nothing is left behind.
func (n *Node) CreateEndpoint(e Endpoint) (string, error) {
	network := ownNetwork
	if e.Elsewhere {
		network, e.Addrs = otherNetwork, []netip.Addr{netip.MustParseAddr("10.95.0.4")}
		if err := n.makeNetwork(otherNetwork, otherName, "NAT", "10.95"); err != nil {
			return "", err
		}
	}
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
	err := n.HNS.Open("Network", network, func(in uint64) error {
		return n.HNS.Create("Endpoint", id, in, fmt.Sprintf(`{"Name":%q,"HostComputeNetwork":%q,"Policies":[%s],"IpConfigurations":[%s],"Flags":%d,`+schemaV2+`}`,
			NetworkName, network, strings.Join(policies, ","), strings.Join(addrs, ","), flags))
	})
	if err != nil {
		return "", err
	}
	made, err := n.HNS.Read("Endpoint", id)
	if err != nil || e.Detached || e.Remote {
		return made.ID, err
	}
	err = n.HNS.Open("Namespace", ownNamespace, func(space uint64) error {
		_, err := n.HNS.Do("HcnModifyNamespace", "", space, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+id+`"}}`)
		return err
	})
	if err != nil {
		err = errors.Join(err, n.HNS.Delete("Endpoint", id))
	}
	return made.ID, err
}

// DeleteEndpoint deletes an endpoint, which may be gone already.
func (n *Node) DeleteEndpoint(id string) error { return n.HNS.Delete("Endpoint", id) }

// Clean takes away everything that this run or one that was killed has made.
func (n *Node) Clean() error {
	networks := []string{}
	ids, err := n.HNS.List("Network")
	failed := []error{err}
	for _, id := range ids {
		o, err := n.HNS.Read("Network", id)
		if isOwn(id) || err == nil && (o.Name == NetworkName || o.Name == otherName) {
			networks = append(networks, strings.ToLower(id))
		}
	}
	ids, err = n.HNS.List("Endpoint")
	failed = append(failed, err)
	for _, id := range ids {
		o, err := n.HNS.Read("Endpoint", id)
		if isOwn(id) || err == nil && slices.Contains(networks, strings.ToLower(o.HostComputeNetwork)) {
			failed = append(failed, n.DeleteEndpoint(id))
		}
	}
	failed = append(failed, n.HNS.Delete("Namespace", ownNamespace))
	for _, id := range networks {
		failed = append(failed, n.HNS.Delete("Network", id))
	}
	return errors.Join(failed...)
}

// isOwn reports whether a GUID is of an object that a Node made.
func isOwn(id string) bool { return strings.HasPrefix(strings.ToLower(id), guids) }
