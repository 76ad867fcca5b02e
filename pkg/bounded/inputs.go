package bounded

import (
	"errors"
	"fmt"
	"io"
)

// MaxInput is the number of bytes that a command reads of one file or of standard input,
// and MaxInputs of all of them together.
const (
	MaxInput  = 64 << 20
	MaxInputs = 256 << 20
)

// ErrTooLarge is an input with more bytes than a command reads. ErrInputTooLarge wraps it for
// one input that is larger than MaxInput.
var (
	ErrTooLarge      = errors.New("too large")
	ErrInputTooLarge = fmt.Errorf("%w: a command reads %d MiB of one input", ErrTooLarge, MaxInput>>20)
)

// Inputs counts the bytes that a command has read. The zero value has read none.
type Inputs struct{ read int64 }

// Read reads one input to its end. It fails with ErrTooLarge at the first byte over
// MaxInput or MaxInputs, without reading on. Callers name the input.
func (i *Inputs) Read(r io.Reader) ([]byte, error) {
	most := min(MaxInput, MaxInputs-i.read)
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	switch i.read += int64(len(text)); {
	case i.read > MaxInputs:
		i.read = MaxInputs // whatever follows fails, too
		return nil, fmt.Errorf("%w: a command reads %d MiB in all", ErrTooLarge, MaxInputs>>20)
	case len(text) > MaxInput:
		return nil, ErrInputTooLarge
	}
	return text, nil
}
