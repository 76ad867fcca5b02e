package hnstest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/winnpm/winnpm/pkg/hns"
)

// transcript prints what a test asks of HNS and what comes of it, also where that is as it
// should be: a log of a node tells its codes and how it shows things.
type transcript struct {
	hns.Client
	t *testing.T
}

// said prints the outcome of a request; an error has its code in it.
func (c transcript) said(err error, format string, args ...any) {
	c.t.Helper()
	outcome := "done"
	if err != nil {
		outcome = err.Error()
	}
	c.t.Logf("%s -> %s", fmt.Sprintf(format, args...), outcome)
}

// Network implements hns.Client.
func (c transcript) Network(ctx context.Context) (hns.Network, error) {
	c.t.Helper()
	network, err := c.Client.Network(ctx)
	if err != nil {
		c.said(err, hns.OpNetworkGet)
		return network, err
	}
	var shown strings.Builder
	for _, p := range network.Sets {
		if strings.HasPrefix(p.ID, ours) {
			fmt.Fprintf(&shown, "\n  %s", setText(p))
		}
	}
	c.t.Logf("%s -> the suite's sets:%s", hns.OpNetworkGet, shown.String())
	return network, nil
}

// GetEndpoint implements hns.Client.
func (c transcript) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	c.t.Helper()
	e, err := c.Client.GetEndpoint(ctx, id)
	if err != nil {
		c.said(err, "%s %s", hns.OpEndpointGet, id)
		return e, err
	}
	var shown strings.Builder
	for _, p := range e.Policies {
		fmt.Fprintf(&shown, "\n  %s %s", p.Type, p.Settings)
	}
	c.t.Logf("%s %s -> %v, namespace %q:%s", hns.OpEndpointGet, id, e.Addrs, e.Netns, shown.String())
	return e, nil
}

// ModifySets implements hns.Client.
func (c transcript) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	c.t.Helper()
	texts := make([]string, len(sets))
	for i, p := range sets {
		texts[i] = setText(p)
	}
	err := c.Client.ModifySets(ctx, verb, sets)
	c.said(err, "%s %s", hns.OpSets(verb), strings.Join(texts, "; "))
	return err
}

// AddACLs implements hns.Client.
func (c transcript) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	c.t.Helper()
	var texts strings.Builder
	for _, a := range acls {
		fmt.Fprintf(&texts, " %s", hns.NewACLPolicy(a).Settings)
	}
	err := c.Client.AddACLs(ctx, id, acls)
	c.said(err, "%s %s%s", hns.OpACLAdd, id, texts.String())
	return err
}

// ReplacePolicies implements hns.Client.
func (c transcript) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	c.t.Helper()
	var texts strings.Builder
	for _, p := range policies {
		fmt.Fprintf(&texts, " %s %s", p.Type, p.Settings)
	}
	err := c.Client.ReplacePolicies(ctx, id, policies)
	c.said(err, "%s %s%s", hns.OpACLUpdate, id, texts.String())
	return err
}

func setText(p hns.SetPolicy) string {
	return fmt.Sprintf("%s %s %q [%s]", p.ID, p.Type, p.Name, strings.Join(p.Values, ","))
}
