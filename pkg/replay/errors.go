package replay

import (
	"errors"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// ErrRecording is that a recording cannot be played, as it is not one that an agent
// made.
var ErrRecording = errors.New("no recording that can be played")

// answered is an error of a call as it was recorded: its text is the recorded
// one, and what is decided by its class is decided as then.
type answered struct {
	text string
	op   *hns.OpError
}

// Error implements error.
func (e *answered) Error() string { return e.text }

// Unwrap returns the operation with its class.
func (e *answered) Unwrap() error { return e.op }

// rebuilt returns the error that was recorded.
func rebuilt(e *recorder.Error) error {
	err := errors.New(e.Message) // of no known class
	for _, c := range classes {
		if c.Error() == e.Class {
			err = c
		}
	}
	return &answered{text: e.Message, op: &hns.OpError{Op: e.Op, Kind: e.Kind, ID: e.ID, Code: e.Code, Err: err}}
}
