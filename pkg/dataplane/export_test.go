package dataplane

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// Stage folds a transaction in, and returns how long that took.
func (d *Dataplane) Stage(tx *Transaction) time.Duration {
	r := d.begin(context.Background(), tx)
	defer d.unlock()
	began := time.Now()
	r.stage()
	return time.Since(began)
}

// Spellings returns what was learned of how HNS shows what was sent.
func (d *Dataplane) Spellings() (list []state.Spelling) {
	d.with(func(n *nodeState) { list = n.endpoints.Spellings.All() })
	return list
}

// SetAsk has ask answer the requests of transactions in place of HNS.
func (d *Dataplane) SetAsk(ask func(hns.Request) hns.Result) { d.client = asked{ask} }

// asked is a client whose requests are answered by a function.
type asked struct {
	answer func(hns.Request) hns.Result
}

func (a asked) Network(context.Context) (hns.Network, error) {
	res := a.answer(hns.Request{Op: hns.OpNetworkGet})
	return res.Network, res.Err
}

func (a asked) EndpointIDs(context.Context) ([]string, error) {
	res := a.answer(hns.Request{Op: hns.OpEndpointIDs})
	return res.IDs, res.Err
}

func (a asked) NewEndpointIDs(context.Context) ([]string, error) {
	res := a.answer(hns.Request{Op: hns.OpEndpointNew})
	return res.IDs, res.Err
}

func (a asked) GetEndpoint(_ context.Context, id string) (hns.Endpoint, error) {
	res := a.answer(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	return res.Endpoint, res.Err
}

func (a asked) Hold(context.Context, string) func() { return func() {} }

func (a asked) AddACLs(_ context.Context, id string, acls []hns.ACL) error {
	return a.answer(hns.Request{Op: hns.OpACLAdd, Endpoint: id, ACLs: acls}).Err
}

func (a asked) ReplacePolicies(_ context.Context, id string, list []hns.EndpointPolicy) error {
	return a.answer(hns.Request{Op: hns.OpACLUpdate, Endpoint: id, Policies: list}).Err
}

func (a asked) ModifySets(_ context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	return a.answer(hns.Request{Op: hns.OpSets(verb), Sets: sets}).Err
}
