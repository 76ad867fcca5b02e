package bounded_test

import (
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/bounded"
)

// endless has no end, as /dev/zero. It counts the bytes that were read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func TestInputs(t *testing.T) {
	effort.Unraced(t)
	part := func(n int64) io.Reader { return io.LimitReader(&endless{}, n) }
	var in bounded.Inputs
	never := &endless{}
	_, err := in.Read(never)
	require.ErrorIs(t, err, bounded.ErrTooLarge)
	require.ErrorContains(t, err, "64 MiB of one input")
	require.LessOrEqual(t, never.read, int64(bounded.MaxInput+1))

	in = bounded.Inputs{}
	for range bounded.MaxInputs / bounded.MaxInput {
		text, err := in.Read(part(bounded.MaxInput))
		require.NoError(t, err)
		require.Len(t, text, bounded.MaxInput)
	}
	_, err = in.Read(part(0))
	require.NoError(t, err)
	for range 2 {
		_, err = in.Read(part(1))
		require.ErrorIs(t, err, bounded.ErrTooLarge)
		require.ErrorContains(t, err, "256 MiB in all")
	}

	broken := errors.New("broken")
	_, err = (&bounded.Inputs{}).Read(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}
