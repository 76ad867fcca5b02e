package hnstest

import (
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
