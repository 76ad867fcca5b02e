// Package looks has reads of HNS that tests request and the reconciler does not.
package looks

import (
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/state"
)

// All returns a Look that reads the sets, the list of endpoints, and each endpoint that a dataplane knows.
func All(dp interface{ Dump() state.Dump }) dataplane.Look {
	look := dataplane.Look{Enumerate: true, Sets: true}
	for _, ep := range dp.Dump().Endpoints {
		look.Endpoints = append(look.Endpoints, ep.ID)
	}
	return look
}
