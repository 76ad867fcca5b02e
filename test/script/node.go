package script

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Change applies a line to the simulated node. It returns the error of the simulator.
func Change(sim *hnsfault.Sim, words []string) error {
	args := words[1:]
	switch words[0] {
	case "endpoint":
		e := hnssim.SimEndpoint{ID: args[0]}
		for addr := range strings.SplitSeq(args[1], ",") {
			e.Addrs = append(e.Addrs, netip.MustParseAddr(addr))
		}
		if len(args) > 2 {
			e.Policies = []hns.EndpointPolicy{}
		}
		return sim.CreateEndpoint(e)
	case "no-endpoint":
		return sim.DeleteEndpoint(args[0])
	case "foreign":
		e, _ := sim.Endpoint(args[0])
		settings := os.Expand(strings.Join(args[2:], " "), hnsfault.DerivedID)
		return sim.SetPolicies(e.ID, append(e.Policies, hns.EndpointPolicy{Type: args[1], Settings: []byte(settings)}))
	case "drop-acl":
		e, _ := sim.Endpoint(args[0])
		return sim.SetPolicies(e.ID, slices.DeleteFunc(e.Policies, func(p hns.EndpointPolicy) bool {
			a, err := p.ACL()
			return err == nil && a.ID == strings.Trim(args[1], "-")
		}))
	case "put-set":
		set := hns.SetPolicy{ID: hnsfault.DerivedID(args[0]), Name: args[0], Type: hns.SetType(args[1])}
		if len(args) > 2 {
			set.Values = strings.Split(args[2], ",")
		}
		for i := range set.Values {
			if set.Type == hns.NestedIPSet {
				set.Values[i] = hnsfault.DerivedID(set.Values[i])
			}
		}
		if len(args) > 3 {
			set.ID = args[3]
		}
		return sim.PutSet(set)
	case "drop-set":
		return sim.DropSet(hnsfault.DerivedID(args[0]))
	case "restart-hns":
		sim.Restart()
		return nil
	default:
		panic("unknown command " + words[0])
	}
}
