package versioned_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// TestStaleWrite: a write from a version that is not the endpoint's any more is refused, with the
// endpoint as it is.
func TestStaleWrite(t *testing.T) {
	for op, write := range writes {
		t.Run(op, func(t *testing.T) {
			sim, stale := start(t)
			theirs := rule
			theirs.ID += ".theirs"
			require.NoError(t, sim.AddACLs(t.Context(), "ep", []hns.ACL{theirs}))
			for _, from := range []hns.Version{stale, ""} {
				_, err := write(versioned.Writer{Ask: hns.Asking(t.Context(), sim)}, from)
				require.ErrorIs(t, err, hns.ErrConflict)
				require.EqualError(t, err, "hns: endpoint ep: before the write: changed since it was read")
				require.False(t, hns.OutcomeUnknown(err))
				var conflict *versioned.Conflict
				require.ErrorAs(t, err, &conflict)
				require.False(t, conflict.Written)
				is, err := sim.GetEndpoint(t.Context(), "ep")
				require.NoError(t, err)
				require.Equal(t, is.Basis(), conflict.Endpoint.Basis(), "it carries what is there")
				ours, _ := is.Split()
				require.Equal(t, []hns.ACL{theirs}, ours)
			}
		})
	}
}

// TestWriteInBetween: a write of another program between ours and the read after it is a conflict.
func TestWriteInBetween(t *testing.T) {
	for op, write := range writes {
		t.Run(op, func(t *testing.T) {
			sim, from := start(t)
			theirs := rule
			theirs.ID += ".theirs"
			_, err := write(versioned.Writer{Ask: hns.Asking(t.Context(), thenTheirs{sim, theirs})}, from)
			var conflict *versioned.Conflict
			require.ErrorAs(t, err, &conflict)
			require.True(t, conflict.Written)
			got, _ := conflict.Endpoint.Split()
			require.ElementsMatch(t, []hns.ACL{rule, theirs}, got)
		})
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
