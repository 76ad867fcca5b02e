package bounded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrNoDump is returned for text that is not a response of debug.ManagerPath.
var ErrNoDump = errors.New("no dump of " + debug.ManagerPath)

// ReadDump reads a response of debug.ManagerPath to the end of r. It fails with ErrNoDump for anything
// else, and with ErrTooMuch for a response above OfAnAgent. It does not check that
// the parts of the dump fit together.
func ReadDump(r io.Reader) (state.Dump, error) {
	var m struct {
		NodeName *string
		state.Dump
	}
	in := json.NewDecoder(Reader(r, OfAnAgent))
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
