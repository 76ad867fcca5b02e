package hnstest

import (
	"context"
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// transcript logs each request and its outcome, so that the log of a node has its codes and shows
// how it spells things.
type transcript struct {
	hns.Client
	t T
}

func (c transcript) log(err error, outcome, format string, args ...any) {
	c.t.Helper()
	if err != nil {
		outcome = err.Error()
	}
	c.t.Logf("%s -> %s", fmt.Sprintf(format, args...), outcome)
}

// Network implements hns.Client.
func (c transcript) Network(ctx context.Context) (hns.Network, error) {
	network, err := c.Client.Network(ctx)
	var sets []hns.SetPolicy
	for _, p := range network.Sets {
		if strings.HasPrefix(p.ID, prefix) {
			sets = append(sets, p)
		}
	}
	c.log(err, "the suite's sets: "+setTexts(sets), hns.OpNetworkGet)
	return network, err
}

// GetEndpoint implements hns.Client.
func (c transcript) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := c.Client.GetEndpoint(ctx, id)
	c.log(err, fmt.Sprintf("%v, namespace %q:%s", e.Addrs, e.Netns, policyTexts(e.Policies)), "%s %s", hns.OpEndpointGet, id)
	return e, err
}

// ModifySets implements hns.Client.
func (c transcript) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	err := c.Client.ModifySets(ctx, verb, sets)
	c.log(err, "done", "%s %s", hns.OpSets(verb), setTexts(sets))
	return err
}

// AddACLs implements hns.Client.
func (c transcript) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	var policies []hns.EndpointPolicy
	for _, a := range acls {
		policies = append(policies, hns.NewACLPolicy(a))
	}
	err := c.Client.AddACLs(ctx, id, acls)
	c.log(err, "done", "%s %s%s", hns.OpACLAdd, id, policyTexts(policies))
	return err
}

// ReplacePolicies implements hns.Client.
func (c transcript) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	texts := policyTexts(policies)
	err := c.Client.ReplacePolicies(ctx, id, policies)
	c.log(err, "done", "%s %s%s", hns.OpACLUpdate, id, texts)
	return err
}

func setTexts(sets []hns.SetPolicy) string {
	var out []string
	for _, p := range sets {
		out = append(out, fmt.Sprintf("%s %s %q [%s]", p.ID, p.Type, p.Name, strings.Join(p.Values, ",")))
	}
	return strings.Join(out, "; ")
}

func policyTexts(policies []hns.EndpointPolicy) string {
	var out strings.Builder
	for _, p := range policies {
		fmt.Fprintf(&out, " %s %s", p.Type, p.Settings)
	}
	return out.String()
}
