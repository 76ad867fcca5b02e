package debug

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/dataplane"
)

// DumpLimits are what a dump has at most that ReadManager takes. The dump of a node in
// a cluster of 10,000 pods and 1,000 policies has 8 MB, 66,000 objects and 400,000
// values; a simulation in which all of these pods are on one node 69 MB, 274,000 and
// 2.2 million. What is within the limits costs 650 MB of memory at most.
var DumpLimits = bounded.Limits{Bytes: 128 << 20, Objects: 500_000, Values: 4_000_000, Depth: 64}

// ErrNoDump is text that ManagerPath does not answer with.
var ErrNoDump = errors.New("no dump of " + ManagerPath)

// ReadManager reads back what ManagerPath answers, to the end of r. It fails with
// ErrNoDump for anything else, the dump of an agent that says less included, and
// with a bounded.ErrTooMuch for one above DumpLimits. What it returns need not fit
// together.
func ReadManager(r io.Reader) (dataplane.Dump, error) {
	var m struct {
		NodeName *string
		dataplane.Dump
	}
	in := json.NewDecoder(bounded.Reader(r, DumpLimits))
	if err := in.Decode(&m); err != nil {
		return dataplane.Dump{}, fmt.Errorf("%w: %w", ErrNoDump, err)
	}
	switch _, err := in.Token(); {
	case !errors.Is(err, io.EOF):
		return dataplane.Dump{}, fmt.Errorf("%w: there is something behind it", ErrNoDump)
	case m.NodeName == nil:
		return dataplane.Dump{}, fmt.Errorf("%w: it has no NodeName", ErrNoDump)
	case m.Time.IsZero():
		return dataplane.Dump{}, fmt.Errorf("%w: it has no time, as those of older agents, which do not say enough", ErrNoDump)
	}
	m.Node = *m.NodeName
	return m.Dump, nil
}
