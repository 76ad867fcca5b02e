package acl

import (
	"net/netip"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// The Ids of our rules that belong to no policy. A policy's Id has a dot and a
// namespace has none, so no policy can bear one of these.
const (
	IDNode     = hns.ACLIDPrefix + "npm-node"
	IDBlockIn  = hns.ACLIDPrefix + "npm-block-in"
	IDBlockOut = hns.ACLIDPrefix + "npm-block-out"
	IDAllowIn  = hns.ACLIDPrefix + "npm-allow-in"
	IDAllowOut = hns.ACLIDPrefix + "npm-allow-out"
)

// Isolation has, for each direction, the ACL that blocks it for all NetworkPolicies that isolate a pod.
var Isolation = [...]*SourcedACL{policy.Ingress: isolation(policy.Ingress), policy.Egress: isolation(policy.Egress)}

func isolation(dir policy.Direction) *SourcedACL {
	return &SourcedACL{From: Source{Tier: policy.Namespaced}, ACL: hns.ACL{
		ID: idOfBlock[dir], Action: hns.Block, Direction: DirectionOf[dir], RuleType: hns.Switch, Priority: hns.PriorityBlock,
	}}
}

// Node returns the rule that lets the node in, none when it has no address.
func Node(nodeAddrs []netip.Addr) []hns.ACL {
	if len(nodeAddrs) == 0 {
		return nil
	}
	texts := make([]string, len(nodeAddrs))
	for i, a := range nodeAddrs {
		texts[i] = a.String()
	}
	return []hns.ACL{{
		ID: IDNode, Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch,
		Priority: hns.PriorityNode, RemoteAddresses: strings.Join(texts, ","),
	}}
}

// idOfBlock has the Ids of the blocks at the end, which no policy has by itself.
var idOfBlock = [...]string{policy.Ingress: IDBlockIn, policy.Egress: IDBlockOut}

// CalicoBase returns the rules that every local endpoint of a network named
// Calico needs, as the predecessor has them (azure-container-networking
// policymanager_windows.go:31-88): Calico's CNI gives an endpoint no way out of
// default deny once it has an ACL, and none past the wire server's block. The
// Host rules are rules of the other layer, which allows no priority.
func CalicoBase() []hns.ACL {
	allow := func(name string, dir hns.DirectionType, layer hns.RuleType, priority uint16) hns.ACL {
		return hns.ACL{ID: hns.ACLIDPrefix + name, Action: hns.Allow, Direction: dir, RuleType: layer, Priority: priority}
	}
	return []hns.ACL{
		{
			ID: hns.ACLIDPrefix + "baseazurewireserver", Action: hns.Block, Direction: hns.Out, Protocols: "6",
			RemoteAddresses: "168.63.129.16/32", RemotePorts: "80", RuleType: hns.Switch, Priority: hns.PriorityInfrastructure,
		},
		allow("baseallowinswitch", hns.In, hns.Switch, hns.PriorityDefault),
		allow("baseallowoutswitch", hns.Out, hns.Switch, hns.PriorityDefault),
		allow("baseallowinhost", hns.In, hns.Host, 0),
		allow("baseallowouthost", hns.Out, hns.Host, 0),
	}
}

// MissingDefaults returns our allow-all rules for the directions for which
// neither other programs nor the endpoint's own shared rules give one: any first
// ACL makes an endpoint deny by default (hcsshim#1059, Windows-Containers#616).
func MissingDefaults(foreign hns.Defaults, shared []hns.ACL) []hns.ACL {
	has := foreign
	for _, a := range shared {
		has.Note(a)
	}
	var out []hns.ACL
	for _, d := range []struct {
		id  string
		dir hns.DirectionType
		has bool
	}{{IDAllowIn, hns.In, has.In}, {IDAllowOut, hns.Out, has.Out}} {
		if !d.has {
			out = append(out, hns.ACL{ID: d.id, Action: hns.Allow, Direction: d.dir, RuleType: hns.Switch, Priority: hns.PriorityDefault})
		}
	}
	return out
}
