package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// readEvery is how often the authorities are read at most, also when that fails:
	// one that is taken away ends that much later.
	readEvery = time.Minute
	// readFor leaves time of a request's deadline for the reviews.
	readFor = 2 * time.Second
	// keepAuthority is how long what was read counts when it can be read no more.
	// A review needs an answer of the API server all the same.
	keepAuthority = 10 * time.Minute
)

// errAuthority: which authorities count is not known. Who reads them has logged it.
var errAuthority = errors.New("the authorities of client certificates are not known")

// authority is what vouches for client certificates, as the API server said last.
// The zero value is of no use.
type authority struct {
	ask    func(context.Context) ([]byte, error)
	logger klog.Logger
	turn   chan struct{} // full while somebody reads

	mu    sync.Mutex // guards following
	last  *bundle    // nil: none was ever read
	read  time.Time  // last
	tried time.Time  // to read; zero is never
	err   error      // of the last try
}

func newAuthority(ask func(context.Context) ([]byte, error), logger klog.Logger) *authority {
	return &authority{ask: ask, logger: logger, turn: make(chan struct{}, 1)}
}

// clientCAs returns what vouches for client certificates. Who has to ask or wait for
// that takes a place of those that ask.
func (g *Guard) clientCAs(ctx context.Context, client netip.Prefix) (*bundle, error) {
	known, due, err := g.authority.now()
	if !due {
		return known, err
	}
	leave, ok := g.asking.enter(client)
	switch {
	case ok:
		defer leave()
		return g.authority.renew(ctx)
	case known != nil:
		return known, nil
	default:
		return nil, errBusy
	}
}

// now returns what is known, if anything is, and whether it is time to read again.
func (a *authority) now() (known *bundle, due bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	due = a.tried.IsZero() || now.Sub(a.tried) >= readEvery
	if a.last != nil && now.Sub(a.read) < keepAuthority {
		return a.last, due, nil
	}
	return nil, due, a.err
}

// renew reads, when it is time to and nobody does, and returns what is known then.
// It waits for somebody else only if nothing is known.
func (a *authority) renew(ctx context.Context) (*bundle, error) {
	if known, _, _ := a.now(); known != nil {
		select {
		case a.turn <- struct{}{}:
		default:
			return known, nil
		}
	} else {
		select {
		case a.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errAuthority, ctx.Err())
		}
	}
	defer func() { <-a.turn }()
	if known, due, err := a.now(); !due { // somebody has read meanwhile
		return known, err
	}
	a.once(ctx)
	known, _, err := a.now()
	return known, err
}

// once reads. A client that goes away does not end it: it would keep others from
// being known.
func (a *authority) once(client context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(client), readFor)
	defer cancel()
	text, err := a.ask(ctx)
	var read *bundle
	if err == nil {
		read, err = newBundle(text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	failed := a.err != nil
	a.tried, a.err = time.Now(), nil
	if err == nil {
		a.last, a.read = read, a.tried
	} else {
		a.err = fmt.Errorf("%w: %w", errAuthority, err)
	}
	switch {
	case err != nil && !failed:
		a.logger.Error(err, "the client CA of the cluster cannot be read: client certificates count for nothing, after a while also those that were known", "after", keepAuthority)
	case err == nil && failed:
		a.logger.Info("the client CA of the cluster can be read again")
	}
}
