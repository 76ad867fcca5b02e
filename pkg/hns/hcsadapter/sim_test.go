package hcsadapter

import (
	"cmp"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// simNode is a simulated node behind the calls of the DLLs.
type simNode struct {
	*hnsd.Server
	sim *hnsfault.Sim // the node's own network
	id  string        // GUID of that network
}

func newSimNode(t *testing.T, o hnsd.Options) *simNode {
	t.Helper()
	n := &simNode{Server: hnsd.New(o)}
	if o.Bare {
		return n
	}
	n.sim = n.Sim()
	own, err := n.sim.Network(t.Context())
	require.NoError(t, err)
	n.id = own.ID
	return n
}

// remake gives the node's own network another GUID and name.
func (n *simNode) remake(id, name string) {
	n.id = id
	n.RemakeNetwork(id, name)
}

// deleteEndpoint deletes an endpoint as a CNI does.
func (n *simNode) deleteEndpoint(t *testing.T, id string) {
	t.Helper()
	_, err := n.do("HcnDeleteEndpoint", id, 0)
	require.NoError(t, err)
}

// calls returns the number of calls of the DLLs so far.
func (n *simNode) calls() (total int) {
	for _, count := range n.Counts() {
		total += count
	}
	return total
}

// onSim returns an adapter over the simulator. The test must leave nothing open.
func onSim(t *testing.T, o Options) (*Adapter, *simNode) {
	t.Helper()
	s := newSimNode(t, hnsd.Options{})
	o.Network = "azure"
	a := newAdapter(o, s)
	t.Cleanup(func() {
		a.Close()
		require.Zero(t, s.OpenHandles(), "handles left open")
	})
	return a, s
}

func (n *simNode) do(export, id string, h handle, texts ...string) (hnstest.CallAnswer, error) {
	a, err := n.Call(export, id, uint64(h), texts...)
	if err == nil && int32(a.Code) < 0 {
		err = &failure{code: a.Code, err: errors.New(a.Record)}
	}
	return a, err
}

func (n *simNode) enumerate(k kind, query string) (string, error) {
	a, err := n.do("HcnEnumerate"+string(k)+"s", "", 0, query)
	return a.Output, err
}

func (n *simNode) open(k kind, id string) (handle, error) {
	a, err := n.do("HcnOpen"+string(k), id, 0)
	return handle(a.Handle), err
}

func (n *simNode) query(k kind, h handle, query string) (string, error) {
	a, err := n.do("HcnQuery"+string(k)+"Properties", "", h, query)
	return a.Output, err
}

func (n *simNode) modify(k kind, h handle, request string) error {
	_, err := n.do("HcnModify"+string(k), "", h, request)
	return err
}

func (n *simNode) close(k kind, h handle) error {
	_, err := n.do("HcnClose"+string(k), "", h)
	return err
}

// TestContract runs the contract suite through everything but the DLLs.
func TestContract(t *testing.T) {
	s := newSimNode(t, hnsd.Options{})
	system := s.System()
	system.Client = func(network string) (hns.Client, error) {
		a := newAdapter(Options{Network: cmp.Or(network, "azure")}, s)
		t.Cleanup(a.Close)
		return a, nil
	}
	r, err := hnstest.Examine(t.Context(), hnstest.Options{}, system)
	require.NoError(t, err)
	require.Empty(t, r.Left)
	for _, a := range r.Answers {
		require.Equal(t, hnstest.Held, a.Verdict, "%s: %s", a.Name, a.Why)
	}
	require.Zero(t, s.OpenHandles())
}
