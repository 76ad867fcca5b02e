package replay

import (
	"errors"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// ErrRecording says that a recording cannot be played: no agent makes such a one.
var ErrRecording = errors.New("no recording that can be played")

// answered is the recorded error of a call. It has the recorded text and class.
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
