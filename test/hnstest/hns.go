package hnstest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// CallAnswer is the answer of HNS to a call.
type CallAnswer struct {
	Code           uint32 // HRESULT
	Record, Output string
	Handle         uint64 // handle of the opened or created object
}

// HNS makes single calls of HNS's exports, including some that hns.Client does not use, such as creating a
// network. It shares no code with the agent's adapter. An error means that there is no answer.
type HNS func(export, id string, handle uint64, texts ...string) (CallAnswer, error)

// Do makes one call. If HNS rejects the call, the error has its code.
func (h HNS) Do(export, id string, handle uint64, texts ...string) (CallAnswer, error) {
	a, err := h(export, id, handle, texts...)
	if err == nil && (int32(a.Code) < 0 || a.Record != "") {
		err = &hns.OpError{Op: export, ID: id, Code: a.Code, Err: errors.New(cmp.Or(a.Record, hns.LookupCode(a.Code).Name, "an unlisted code"))}
	}
	return a, err
}

// Create creates an object, and closes its handle. The kind is Network, Endpoint or Namespace.
func (h HNS) Create(kind, id string, in uint64, settings string) error {
	a, err := h.Do("HcnCreate"+kind, id, in, settings)
	if err == nil {
		_, err = h.Do("HcnClose"+kind, "", a.Handle)
	}
	return err
}

// Open opens an object for one call.
func (h HNS) Open(kind, id string, use func(handle uint64) error) error {
	a, err := h.Do("HcnOpen"+kind, id, 0)
	if err != nil {
		return err
	}
	err = use(a.Handle)
	_, closing := h.Do("HcnClose"+kind, "", a.Handle)
	return errors.Join(err, closing)
}

// Delete deletes an object, which need not exist.
func (h HNS) Delete(kind, id string) error {
	if _, err := h.Do("HcnDelete"+kind, id, 0); err != nil && hns.LookupCode(hns.CodeOf(err)).Class != hns.SaysMissing {
		return fmt.Errorf("%s %s: %w", kind, id, err)
	}
	return nil
}

const schemaV2 = `"SchemaVersion":{"Major":2,"Minor":0}`

// List returns the GUIDs of all objects of a kind.
func (h HNS) List(kind string) (ids []string, err error) {
	a, err := h.Do("HcnEnumerate"+kind+"s", "", 0, "{"+schemaV2+"}")
	if err != nil {
		return nil, err
	}
	return ids, json.Unmarshal([]byte(a.Output), &ids)
}
