package hns_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestOpError(t *testing.T) {
	err := error(&hns.OpError{Op: "SetPolicy/Remove", Kind: hns.KindSet, ID: "azure-npm-1", Code: 0x803B002C, Err: fmt.Errorf("%w: by a rule", hns.ErrInUse)})
	require.EqualError(t, err, "hns SetPolicy/Remove: set azure-npm-1: in use: by a rule (0x803b002c)")
	require.ErrorIs(t, err, hns.ErrInUse)
	require.NotErrorIs(t, err, hns.ErrNotFound)
	require.EqualError(t, &hns.OpError{Op: "Network/Get", Kind: hns.KindNetwork, ID: "azure", Err: hns.ErrUnavailable},
		"hns Network/Get: network azure: service unavailable", "no code, no number")
}

// TestErrorClasses: a refusal says that nothing was done, everything else may
// have been done.
func TestErrorClasses(t *testing.T) {
	wrap := func(kind string, class error) error {
		return fmt.Errorf("apply: %w", &hns.OpError{Op: "ACL/Add", Kind: kind, ID: "x", Err: fmt.Errorf("%w: why", class)})
	}
	for name, test := range map[string]struct {
		err           error
		unknown, gone bool
	}{
		"nil":              {nil, false, false},
		"endpoint gone":    {wrap(hns.KindEndpoint, hns.ErrNotFound), false, true},
		"set missing":      {wrap(hns.KindSet, hns.ErrNotFound), false, false},
		"network missing":  {wrap(hns.KindNetwork, hns.ErrNotFound), false, false},
		"bare not found":   {hns.ErrNotFound, false, false},
		"exists":           {wrap(hns.KindSet, hns.ErrAlreadyExists), false, false},
		"in use":           {wrap(hns.KindSet, hns.ErrInUse), false, false},
		"conflict":         {wrap(hns.KindEndpoint, hns.ErrConflict), false, false},
		"invalid":          {wrap(hns.KindACL, hns.ErrInvalid), false, false},
		"elsewhere":        {wrap(hns.KindEndpoint, hns.ErrElsewhere), false, false},
		"unavailable":      {wrap(hns.KindEndpoint, hns.ErrUnavailable), true, false},
		"unlisted":         {wrap(hns.KindEndpoint, hns.ErrUnlisted), true, false},
		"deadline":         {context.DeadlineExceeded, true, false},
		"no known class":   {errors.New("odd"), true, false},
		"odd code of HNS":  {wrap(hns.KindEndpoint, errors.New("odd")), true, false},
		"no endpoint, odd": {&hns.OpError{Kind: hns.KindEndpoint, Err: errors.New("odd")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.unknown, hns.OutcomeUnknown(test.err))
			require.Equal(t, test.gone, hns.EndpointGone(test.err))
		})
	}
}
