package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// crowded is a dump of so many workloads of one pod each, all of this node.
func crowded(workloads int) state.Dump {
	d := state.Dump{}
	for i := range workloads {
		d.Pods = append(d.Pods, state.PodDump{Pod: fmt.Sprintf("x/w%d", i), Addr: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Labels: map[string]string{"app": fmt.Sprint(i)}, Local: true, Owner: true})
	}
	return d
}

// questions counts how often somebody asks whether the client is still there,
// which is once before each row of a matrix, and lets it go after some.
type questions struct {
	context.Context
	asked *int
	most  int
}

func (q questions) Err() error {
	if *q.asked++; *q.asked > q.most {
		return context.Canceled
	}
	return nil
}

// TestTheClientGoes: no row of a matrix is made for nobody, and half a matrix is
// not kept.
func TestTheClientGoes(t *testing.T) {
	h := handler(crowded(200))
	for _, most := range []int{0, 5, 50} {
		asked := 0
		req := httptest.NewRequestWithContext(questions{t.Context(), &asked, most}, http.MethodGet, "/api/matrix", nil)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Zero(t, rec.Body.Len())
		require.LessOrEqual(t, asked, most+2, "somebody went on")
	}
	require.Equal(t, http.StatusOK, get(t, h, "/api/matrix").Code)
}

// TestWaitingEndsWithTheClient: a request whose client has gone does not wait for the matrix.
func TestWaitingEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSnapshot(behind())
		_, unlock, err := s.lock(t.Context())
		require.NoError(t, err)
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = s.lock(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		unlock()
		_, unlock, err = s.lock(t.Context())
		require.NoError(t, err)
		unlock()
	})
}
