package hcsadapter

import (
	"cmp"
	"errors"
	"fmt"
)

// Arguments are those of one call of an export of HNS, which takes some of them.
type Arguments struct {
	Handle uint64   // of an open object
	ID     string   // GUID of the object
	Texts  []string // query or request; of HNSCall method, path and request
}

// Outcome is what a call came to, as HNS said it.
type Outcome struct {
	HResult uint32
	Record  string // the error record; empty: none
	Output  string
	Handle  uint64 // of what was opened; 0: nothing
}

// Calls makes one call of an export. Its error says that there is no answer.
type Calls func(export string, a Arguments) (Outcome, error)

// Over is New with other calls than those of the DLLs: tests put a simulator behind them. Errors
// get the same classes, and calls the same worker and deadline.
func Over(o Options, calls Calls) Client {
	l := through{calls}
	if o.Network == "" {
		return newFound(o, l)
	}
	return newAdapter(o, l)
}

// through is HNS by way of Calls.
type through struct{ calls Calls }

func (t through) enumerate(k kind, query string) (string, error) {
	out, err := t.call("HcnEnumerate"+string(k)+"s", Arguments{Texts: []string{query}})
	return out.Output, err
}

func (t through) open(k kind, id string) (handle, error) {
	out, err := t.call("HcnOpen"+string(k), Arguments{ID: id})
	return handle(out.Handle), err
}

func (t through) query(k kind, h handle, query string) (string, error) {
	out, err := t.call("HcnQuery"+string(k)+"Properties", Arguments{Handle: uint64(h), Texts: []string{query}})
	return out.Output, err
}

func (t through) modify(k kind, h handle, request string) error {
	_, err := t.call("HcnModify"+string(k), Arguments{Handle: uint64(h), Texts: []string{request}})
	return err
}

func (t through) close(k kind, h handle) error {
	_, err := t.call("HcnClose"+string(k), Arguments{Handle: uint64(h)})
	return err
}

func (t through) hnsCall(method, path, request string) (string, error) {
	out, err := t.call("HNSCall", Arguments{Texts: []string{method, path, request}})
	return out.Output, err
}

// call makes an answer that is an error a failure, as dlls does.
func (t through) call(export string, a Arguments) (Outcome, error) {
	out, err := t.calls(export, a)
	switch {
	case err != nil:
		return out, fmt.Errorf("%s: %w", export, err)
	case int32(out.HResult) < 0:
		return out, &failure{code: out.HResult, err: errors.New(export + ": " + cmp.Or(out.Record, "refused"))}
	case out.Record != "":
		return out, &failure{err: fmt.Errorf("%s: success with an error record: %s", export, out.Record)}
	}
	return out, nil
}
