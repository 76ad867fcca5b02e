package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/rawhns"
)

// The GUIDs of all objects that the doctor makes begin with guids, and its network has the name
// networkName. The doctor never writes to any other object.
const (
	guids       = "d0c70000-5f3a-4c1e-9b6d-77696e6e"
	networkName = "winnpm-doctor"

	ownNetwork   = guids + "7001"
	ownNamespace = guids + "7002"
)

// node makes the objects that questions are about. It implements hnstest.Fixture.
type node struct {
	hns  rawhns.HNS
	made int // number of endpoints made so far
}

var _ hnstest.Fixture = (*node)(nil)

// make makes the network and the namespace that most questions need.
func (n *node) make(kind string) error {
	err := n.hns.Create("Network", ownNetwork, 0, fmt.Sprintf(`{"Name":%q,"Type":%q,"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.90.0.0/16",`+
		`"Routes":[{"NextHop":"10.90.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`, networkName, kind))
	if err != nil {
		return err
	}
	return n.hns.Create("Namespace", ownNamespace, 0, `{"Type":"Host","SchemaVersion":{"Major":2,"Minor":0}}`)
}

// CreateEndpoint implements hnstest.Fixture. It attaches the endpoint as containerd does. If that
// fails, it deletes the endpoint.
func (n *node) CreateEndpoint(_ hnstest.T, e hnstest.Endpoint) (string, error) {
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
	err := n.hns.Open("Network", ownNetwork, func(in uint64) error {
		return n.hns.Create("Endpoint", id, in, fmt.Sprintf(`{"Name":%q,"HostComputeNetwork":%q,"Policies":[%s],"IpConfigurations":[%s],"Flags":%d,`+
			`"SchemaVersion":{"Major":2,"Minor":0}}`, networkName, ownNetwork, strings.Join(policies, ","), strings.Join(addrs, ","), flags))
	})
	if err != nil {
		return "", err
	}
	made, err := n.hns.Read("Endpoint", id)
	if err != nil || e.Detached || e.Remote {
		return made.ID, err
	}
	err = n.hns.Open("Namespace", ownNamespace, func(space uint64) error {
		_, err := n.hns.Do("HcnModifyNamespace", "", space, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+id+`"}}`)
		return err
	})
	if err != nil {
		err = errors.Join(err, n.hns.Delete("Endpoint", id))
	}
	return made.ID, err // in the spelling of HNS
}

// DeleteEndpoint implements hnstest.Fixture.
func (n *node) DeleteEndpoint(t hnstest.T, id string) {
	if err := n.hns.Delete("Endpoint", id); err != nil {
		t.Errorf("%v", err)
	}
}

// clean takes away everything that this run or one that was killed has made.
func (n *node) clean() error {
	var failed []error
	networks := []string{}
	ids, err := n.hns.List("Network")
	failed = append(failed, err)
	for _, id := range ids {
		o, err := n.hns.Read("Network", id)
		if own(id) || err == nil && o.Name == networkName {
			networks = append(networks, strings.ToLower(id))
		}
	}
	ids, err = n.hns.List("Endpoint")
	failed = append(failed, err)
	for _, id := range ids {
		o, err := n.hns.Read("Endpoint", id)
		if own(id) || err == nil && slices.Contains(networks, strings.ToLower(o.HostComputeNetwork)) {
			failed = append(failed, n.hns.Delete("Endpoint", id))
		}
	}
	failed = append(failed, n.hns.Delete("Namespace", ownNamespace))
	for _, id := range networks {
		failed = append(failed, n.hns.Delete("Network", id))
	}
	return errors.Join(failed...)
}

// own reports whether the doctor gave an object its GUID.
func own(id string) bool { return strings.HasPrefix(strings.ToLower(id), guids) }
