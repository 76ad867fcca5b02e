package conflist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"0.3.0", "1.0.0", "1.1.0"} {
		require.NoError(t, CheckVersion([]byte(`{"cniVersion":"`+v+`","name":"n","plugins":[{"type":"a"}]}`)))
	}
	for _, file := range []string{
		`{"cniVersion":"0.2.0","name":"n","plugins":[{"type":"a"}]}`,
		`{"name":"n","plugins":[{"type":"a"}]}`,
		`{"cniVersion":"2.0.0","name":"n","plugins":[{"type":"a"}]}`,
	} {
		require.ErrorIs(t, CheckVersion([]byte(file)), ErrVersion, file)
	}
}

// TestInsertAtTheBound: what Insert writes Remove takes out, at any size that Insert takes.
func TestInsertAtTheBound(t *testing.T) {
	t.Parallel()
	for _, short := range []int{0, 30, 60, 200} {
		file := []byte(`{"plugins":[{"type":"a"}]}`)
		file = append(file, strings.Repeat(" ", MaxBytes-short-len(file))...)
		with, err := Insert(file, Entry{Mode: "wait"})
		if short < 60 {
			require.ErrorIs(t, err, ErrTooLarge)
			continue
		}
		require.NoError(t, err)
		without, err := Remove(with)
		require.NoError(t, err)
		require.Equal(t, string(file), string(without))
	}
}
