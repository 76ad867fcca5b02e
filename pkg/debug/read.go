package debug

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrNoDump is returned for text that is not a response of ManagerPath.
var ErrNoDump = errors.New("no dump of " + ManagerPath)

// ReadManager reads a response of ManagerPath to the end of r. It fails with ErrNoDump for anything
// else, and with bounded.ErrTooMuch for a response above bounded.OfAnAgent. It does not check that
// the parts of the dump fit together.
func ReadManager(r io.Reader) (state.Dump, error) {
	var m struct {
		NodeName *string
		state.Dump
	}
	in := json.NewDecoder(bounded.Reader(r, bounded.OfAnAgent))
	if err := in.Decode(&m); err != nil {
		return state.Dump{}, fmt.Errorf("%w: %w", ErrNoDump, err)
	}
	switch _, err := in.Token(); {
	case !errors.Is(err, io.EOF):
		return state.Dump{}, fmt.Errorf("%w: there is something behind it", ErrNoDump)
	case m.NodeName == nil:
		return state.Dump{}, fmt.Errorf("%w: it has no NodeName", ErrNoDump)
	case m.Time.IsZero():
		return state.Dump{}, fmt.Errorf("%w: it has no time", ErrNoDump)
	}
	m.Node = *m.NodeName
	return m.Dump, nil
}
