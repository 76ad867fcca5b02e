package dataplane_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// choosy is an HNS that has something against a request for rules as a whole.
type choosy struct {
	*hnsfault.Sim
	refuses func(op string, ours []hns.ACL) bool
}

func (c choosy) answer(op, id string, ours []hns.ACL) error {
	if !c.refuses(op, ours) {
		return nil
	}
	return &hns.OpError{Op: op, Kind: hns.KindEndpoint, ID: id, Code: 0x803B0030, Err: hns.ErrUnlisted}
}

func (c choosy) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	if err := c.answer(hns.OpACLAdd, id, acls); err != nil {
		return err
	}
	return c.Sim.AddACLs(ctx, id, acls)
}

func (c choosy) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	ours, _ := hns.Endpoint{Policies: policies}.Split()
	if err := c.answer(hns.OpACLUpdate, id, ours); err != nil {
		return err
	}
	return c.Sim.ReplacePolicies(ctx, id, policies)
}

// TestWhateverClosesIt: HNS takes the block for ingress, but not beside what else is
// to be there. The pod is closed all the same, in the first transaction, and HNS is
// not asked for the rest for ever at the pace of a pod that is open.
func TestWhateverClosesIt(t *testing.T) {
	closes := func(dir hns.Direction) func(hns.ACL) bool {
		return func(a hns.ACL) bool { return a.Action == hns.Block && a.Direction == dir }
	}
	for name, refuses := range map[string]func(op string, ours []hns.ACL) bool{
		"two rules in one Add": func(op string, ours []hns.ACL) bool { return op == hns.OpACLAdd && len(ours) > 1 },
		"any Add":              func(op string, _ []hns.ACL) bool { return op == hns.OpACLAdd },
		"the block for egress": func(_ string, ours []hns.ACL) bool { return slices.ContainsFunc(ours, closes(hns.Out)) },
		"rules that allow all": func(_ string, ours []hns.ACL) bool {
			return slices.ContainsFunc(ours, func(a hns.ACL) bool { return a.Priority == hns.PriorityDefault })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start(func(cfg *dataplane.Config) { cfg.Client = choosy{w.sim, refuses} })
			w.do("namespace x", "node 10.1.0.4", "endpoint ep 10.0.0.4 bare", "pod x/web 10.0.0.4", `policy x/p {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: 443}]}]}`)
			tries := 0
			for began := w.now; w.now.Sub(began) < time.Hour; w.now = w.now.Add(max(w.report.Next(), time.Millisecond)) {
				w.transact()
				w.do(stranger + "block")
				tries += w.report.Calls[hns.OpACLAdd] + w.report.Calls[hns.OpACLUpdate]
				if w.report.Next() == 0 {
					break
				}
			}
			require.NotEmpty(t, w.report.Warnings)
			require.Contains(t, w.report.Warnings[0].Message, "0x803b0030")
			require.Less(t, tries, 200, "in an hour")
		})
	}
}

// secretive is an HNS that takes rules of ours and never shows one.
type secretive struct{ *hnsfault.Sim }

func (b secretive) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := b.Sim.GetEndpoint(ctx, id)
	_, e.Policies = e.Split()
	return e, err
}

// TestRulesThatAreNotShown: they do not pile up, writes are those of a dispute, and what
// is taken away goes.
func TestRulesThatAreNotShown(t *testing.T) {
	w := newbornWorld(t, func(cfg *dataplane.Config) { cfg.Client = secretive{cfg.Client.(*hnsfault.Sim)} })
	tries := 0
	hour := func() {
		tries = 0
		for began := w.now; w.now.Sub(began) < time.Hour; w.now = w.now.Add(max(w.report.Next(), time.Millisecond)) {
			_ = w.apply()
			tries += w.writes()
		}
	}
	hour()
	w.do("trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in allow", stranger+"block", "delete policy x/p")
	hour()
	require.Less(t, tries, 20)
	require.Less(t, len(w.policiesOf("ep")), 20)
	w.do("trace 10.0.1.5 -> 10.0.0.4 TCP/80 ep in block", "trace 10.9.9.9 -> 10.0.0.4 TCP/443 ep in allow")
}
