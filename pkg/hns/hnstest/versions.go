package hnstest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// version reads the endpoint's version.
func (b *bench) version(endpoint string) hns.Version {
	b.Helper()
	e, err := b.client.GetEndpoint(b.ctx, endpoint)
	require.NoError(b, err)
	return e.Basis()
}

// writesHaveVersions: what was written reads back as the version that was asked
// for, whatever HNS adds to it. Without that every write would be a conflict.
func writesHaveVersions(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint(foreignBlock(), hns.EndpointPolicy{
		Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`),
	})
	_, foreign := b.rules(ep)
	one, two := allowFrom("one", web), allowFrom("two", web)
	one.Protocols = ""
	one.LocalPorts = ""
	w := versioned.Writer{Ask: hns.Asking(b.ctx, b.client)}

	first := b.version(ep)
	added, err := w.Add(ep, first, []hns.ACL{one})
	require.NoError(b, err)
	require.NotEqual(b, first, added.Version)
	require.Equal(b, b.version(ep), added.Version)
	replaced, err := w.Replace(ep, added.Version, []hns.ACL{two})
	require.NoError(b, err)
	require.Equal(b, b.version(ep), replaced.Version)
	b.wantRules(ep, foreign, two)
	cleared, err := w.Replace(ep, replaced.Version, nil)
	require.NoError(b, err)
	require.Equal(b, first, cleared.Version, "the same state has the same version")
}

// staleWriteRefused: somebody else wrote since the read.
func staleWriteRefused(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint()
	stale := b.version(ep)
	theirs := allowFrom("theirs", web)
	require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{theirs}))
	w := versioned.Writer{Ask: hns.Asking(b.ctx, b.client)}
	for _, from := range []hns.Version{stale, ""} {
		for _, write := range []func(string, hns.Version, []hns.ACL) (versioned.Done, error){w.Add, w.Replace} {
			_, err := write(ep, from, []hns.ACL{allowFrom("ours", web)})
			require.ErrorIs(b, err, hns.ErrConflict)
			require.False(b, hns.OutcomeUnknown(err))
			var conflict *versioned.Conflict
			require.ErrorAs(b, err, &conflict)
			require.False(b, conflict.Written)
			require.Equal(b, b.version(ep), conflict.Endpoint.Basis(), "it carries what is there")
			b.wantRules(ep, nil, theirs)
		}
	}
}

// cameInBetween: somebody else writes between the write and the read after it.
func cameInBetween(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint()
	theirs := allowFrom("theirs", web)
	w := versioned.Writer{Ask: hns.Asking(b.ctx, thenTheirs{b.client, theirs})}
	for i, write := range []func(string, hns.Version, []hns.ACL) (versioned.Done, error){w.Add, w.Replace} {
		mine := allowFrom([]string{"added", "replaced"}[i], web)
		_, err := write(ep, b.version(ep), []hns.ACL{mine})
		var conflict *versioned.Conflict
		require.ErrorAs(b, err, &conflict)
		require.True(b, conflict.Written)
		got, _ := conflict.Endpoint.Split()
		require.ElementsMatch(b, []hns.ACL{mine, theirs}, got)
		require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, nil))
	}
}

// thenTheirs is a client behind whose every write somebody else adds a rule.
type thenTheirs struct {
	hns.Client
	theirs hns.ACL
}

func (c thenTheirs) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	if err := c.Client.AddACLs(ctx, id, acls); err != nil {
		return err
	}
	return c.Client.AddACLs(ctx, id, []hns.ACL{c.theirs})
}

func (c thenTheirs) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	if err := c.Client.ReplacePolicies(ctx, id, policies); err != nil {
		return err
	}
	return c.Client.AddACLs(ctx, id, []hns.ACL{c.theirs})
}
