package hnstest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRefutedStays: an answer that was refuted stays refuted if the rest of its question is not asked.
func TestRefutedStays(t *testing.T) {
	q := Question{Phase: ReadOnly, ask: func(b *bench) {
		b.Errorf("wrong")
		b.skip("cannot go on")
	}}
	a := q.answer(t.Context(), nil, &Node{})
	require.Equal(t, []string{Refuted, "wrong"}, []string{a.Verdict, a.Why})
	q.ask = func(b *bench) { require.NoError(b, errors.New("broken")) }
	require.Equal(t, Refuted, q.answer(t.Context(), nil, &Node{}).Verdict)
}
