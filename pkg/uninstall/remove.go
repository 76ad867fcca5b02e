package uninstall

import (
	"context"
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// Rounds is how often Remove looks and takes away what it finds.
const Rounds = 5

// Remove takes everything of ours away and returns what is left, as a last look finds it.
// It may be ended at any call and begun anew.
//
// An endpoint loses all of our rules in one request, so what it lets pass is as before
// or as without us, and nothing between. One that fails does not stop the others. Sets go
// only when no endpoint is left that has our rules, or may have them.
//
// pause is called before a round that follows one in which something failed; the first is
// round 1. Its error ends the work, as does that of the last look.
func Remove(ctx context.Context, client hns.Client, pause func(round int) error) (Found, error) {
	failed, setErr := map[string]error{}, error(nil)
	for round := 1; ; round++ {
		found, err := Look(ctx, client)
		switch {
		case ctx.Err() != nil:
			return Found{}, context.Cause(ctx)
		case err == nil && found.Empty():
			return found, nil
		case round > Rounds && err == nil:
			return found.because(failed, setErr), nil
		case round > Rounds:
			return Found{}, err
		case err == nil:
			failed, setErr = found.takeAway(ctx, client)
			if len(failed) == 0 && setErr == nil {
				continue // a look tells whether it is done
			}
		}
		if err := pause(round + 1); err != nil {
			return Found{}, err
		}
	}
}

// because adds why something is left.
func (f Found) because(failed map[string]error, setErr error) Found {
	for i, e := range f.Endpoints {
		if e.Err == nil {
			f.Endpoints[i].Err = failed[e.ID]
		}
	}
	if len(f.Sets) > 0 {
		f.SetErr = setErr
	}
	return f
}

// errKept is why no set is removed.
var errKept = errors.New("endpoints are left whose rules may name them")

// takeAway removes what was found. It returns why endpoints keep their rules, by GUID,
// and why sets stay.
func (f Found) takeAway(ctx context.Context, client hns.Client) (failed map[string]error, setErr error) {
	failed = map[string]error{}
	writer := versioned.Writer{Ask: hns.Asking(ctx, client)}
	for _, e := range f.Endpoints {
		err := e.Err
		if err == nil {
			release := client.Hold(ctx, e.ID)
			_, err = writer.Replace(e.ID, e.version, nil)
			release()
		}
		if err != nil && !hns.EndpointGone(err) {
			failed[e.ID] = err
		}
	}
	if len(failed) > 0 {
		return failed, errKept
	}
	at := 0
	for ; at < len(f.Sets) && f.Sets[at].Type == hns.NestedIPSet; at++ {
	}
	return failed, errors.Join(removeSets(ctx, client, f.Sets[:at]), removeSets(ctx, client, f.Sets[at:]))
}

// removeSets removes sets of one type with one request. When HNS refuses that, each goes
// alone: the request is all or nothing.
func removeSets(ctx context.Context, client hns.Client, sets []hns.SetPolicy) error {
	if len(sets) == 0 {
		return nil
	}
	if err := client.ModifySets(ctx, hns.Remove, sets); err == nil || !hns.Answered(err) {
		return err
	}
	var first error
	for _, s := range sets {
		err := client.ModifySets(ctx, hns.Remove, []hns.SetPolicy{s})
		if err != nil && !errors.Is(err, hns.ErrNotFound) && first == nil {
			first = fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return first
}
