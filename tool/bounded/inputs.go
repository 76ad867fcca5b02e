package bounded

import (
	"errors"
	"fmt"
	"io"
)

// MaxInput is the limit of bytes that a command reads from one file or from standard input.
// MaxInputs is the limit for all inputs together.
const (
	MaxInput  = 64 << 20
	MaxInputs = 256 << 20
)

// ErrTooLarge is the error for inputs over a limit. ErrInputTooLarge wraps it for a single input
// that is larger than MaxInput.
var (
	ErrTooLarge      = errors.New("too large")
	ErrInputTooLarge = fmt.Errorf("%w: a command reads %d MiB of one input", ErrTooLarge, MaxInput>>20)
)

// Inputs counts the bytes that a command has read. The zero value is ready to use.
type Inputs struct{ read int64 }

// Read reads one input to its end. It stops at the first byte over MaxInput or MaxInputs and returns
// ErrTooLarge. The error does not name the input, so callers add its name.
func (i *Inputs) Read(r io.Reader) ([]byte, error) {
	most := min(MaxInput, MaxInputs-i.read)
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	switch i.read += int64(len(text)); {
	case i.read > MaxInputs:
		i.read = MaxInputs // every later Read fails as well, unless its input is empty
		return nil, fmt.Errorf("%w: a command reads %d MiB in all", ErrTooLarge, MaxInputs>>20)
	case len(text) > MaxInput:
		return nil, ErrInputTooLarge
	}
	return text, nil
}
