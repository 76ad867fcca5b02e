package hcsadapter

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns/dllcalls"
)

// counted is a library whose calls count for the meters of a context.
type counted struct {
	library
	ctx context.Context
}

// counting returns the service whose calls count for ctx.
func (s service) counting(ctx context.Context) service { return service{counted{s.library, ctx}} }

func (c counted) enumerate(k kind, query string) (string, error) {
	dllcalls.Count(c.ctx, 1)
	return c.library.enumerate(k, query)
}

func (c counted) open(k kind, id string) (handle, error) {
	dllcalls.Count(c.ctx, 1)
	return c.library.open(k, id)
}

func (c counted) query(k kind, h handle, query string) (string, error) {
	dllcalls.Count(c.ctx, 1)
	return c.library.query(k, h, query)
}

func (c counted) modify(k kind, h handle, request string) error {
	dllcalls.Count(c.ctx, 1)
	return c.library.modify(k, h, request)
}

func (c counted) close(k kind, h handle) error {
	dllcalls.Count(c.ctx, 1)
	return c.library.close(k, h)
}

func (c counted) hnsCall(method, path, request string) (string, error) {
	dllcalls.Count(c.ctx, 1)
	return c.library.hnsCall(method, path, request)
}
