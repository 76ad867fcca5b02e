package simulate

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/explain"
)

// TestLive: a live simulation has the result that the command prints, and answers questions.
func TestLive(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := Start(ctx, Options{Manifests: []string{small}})
	require.NoError(t, err)
	_, stdout, _ := once(t, Options{Manifests: []string{small}, Output: "json", Matrix: []string{"80/TCP"}, Trace: []string{"x/web->x/db:5432/TCP"}})
	var out strings.Builder
	require.NoError(t, l.WriteResult(ctx, &out, []string{"80/TCP"}, []string{"x/web->x/db:5432/TCP"}, false))
	require.JSONEq(t, stdout, out.String())
	require.EqualError(t, l.WriteResult(ctx, &out, []string{"80"}, nil, false), "--matrix \"80\": write PORT/PROTO, like 80/TCP")
	require.ErrorIs(t, l.WriteResult(ctx, &out, nil, []string{"a/b->1.1.1.1:5432/TCP"}, false), explain.ErrNoEnd)
	require.NoError(t, l.Pages().Ready())
	require.NotEmpty(t, l.Pages().Dump().Pods)
}
