// Package doctor asks the HNS of a node what it does, call by call, and records every answer.
// It asserts nothing: what WinNPM assumes of HNS is held, refuted or unknown after it, each
// with the records that say so.
//
// It knows the exports of HNS and their JSON, and shares no code with the adapter that the
// agent uses, which it judges too.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Arguments are those of one call of an export, which takes some of them.
type Arguments struct {
	Handle uint64   // of an open object; the network's, when an endpoint is made
	ID     string   // GUID of the object
	Texts  []string // query, request or settings; of HNSCall method, path and request
}

// Outcome is what a call came to.
type Outcome struct {
	HResult uint32
	Record  string // the error record; empty: none
	Output  string
	Handle  uint64 // of what was opened or made; 0: nothing
}

// Library makes single calls of HNS's exports. An error says that there is no answer.
type Library interface {
	Call(ctx context.Context, export string, a Arguments) (Outcome, error)
}

// Record is one call and what came of it.
type Record struct {
	N       int      `json:"n"`
	Probe   string   `json:"probe"`
	Asks    string   `json:"asks,omitempty"` // what the probe wants to know by it
	Export  string   `json:"export"`
	ID      string   `json:"id,omitempty"`
	Request []string `json:"request,omitempty"`
	// HResult is like 0x803b000d; empty: there was no answer, and Error says why.
	HResult     string `json:"hresult"`
	Name        string `json:"name,omitempty"` // of the HRESULT, where it is known
	ErrorRecord string `json:"errorRecord,omitempty"`
	Output      string `json:"output,omitempty"`
	Error       string `json:"error,omitempty"`
	TookMicros  int64  `json:"tookMicros"`

	code uint32
}

// setAnswer takes over what a call came to.
func (r *Record) setAnswer(out Outcome, err error) {
	if err != nil {
		r.Error = err.Error()
		return
	}
	r.code, r.HResult, r.Name = out.HResult, fmt.Sprintf("0x%08x", out.HResult), hns.LookupCode(out.HResult).Name
	r.ErrorRecord, r.Output = out.Record, out.Output
}

// ok reports whether HNS did what was asked.
func (r *Record) ok() bool { return r.Error == "" && int32(r.code) >= 0 && r.ErrorRecord == "" }

// class is what the agent takes the answer for.
func (r *Record) class() hns.CodeClass { return hns.LookupCode(r.code).Class }

// denied reports whether HNS says that who asks may not.
func (r *Record) denied() bool { return r.Error == "" && r.code == 0x80070005 } // E_ACCESSDENIED

// said is the answer in a few words.
func (r *Record) said() string {
	switch {
	case r.Error != "":
		return "no answer: " + r.Error
	case r.Name != "":
		return r.HResult + " " + r.Name
	case r.ErrorRecord != "":
		return r.HResult + " with an error record"
	}
	return r.HResult
}

// Kinds of objects, as the names of the exports have them.
const (
	network   = "Network"
	endpoint  = "Endpoint"
	namespace = "Namespace"
)

// exam is one run: it makes calls, records them, and collects findings.
type exam struct {
	ctx      context.Context
	library  Library
	now      func() time.Time
	progress func(probe string) // nil: nobody is told
	major    int                // of HNS; 0: not known
	net      string             // the first three bytes of the own network
	probe    string             // the one whose calls are made
	records  []*Record
	findings []Finding

	wire      Wire    // nil: no packets
	scale     int     // 0: no phase 3
	service   Service // nil: no restart
	questions []Question
}

// call makes one call and records it.
func (e *exam) call(asks, export string, a Arguments) (Outcome, *Record) {
	began := e.now()
	out, err := e.library.Call(e.ctx, export, a)
	r := &Record{
		N: len(e.records), Probe: e.probe, Asks: asks, Export: export, ID: a.ID, Request: a.Texts,
		TookMicros: e.now().Sub(began).Microseconds(),
	}
	r.setAnswer(out, err)
	e.records = append(e.records, r)
	return out, r
}

// query is HCN's query for what a filter matches; empty: everything.
func query(filter string) string {
	if filter == "" {
		return `{"SchemaVersion":{"Major":2,"Minor":0}}`
	}
	return fmt.Sprintf(`{"SchemaVersion":{"Major":2,"Minor":0},"Filter":%s}`, quoted(filter))
}

// quoted is a text as JSON has it, with <, > and & as they are.
func quoted(text string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic("BUG: a string always encodes: " + err.Error())
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// errNoList says that an enumeration has no list of GUIDs.
var errNoList = errors.New("the answer is no list of GUIDs")

// enumerate lists the GUIDs of objects of a kind that a filter matches.
func (e *exam) enumerate(asks, kind, filter string) ([]string, *Record) {
	_, r := e.call(asks, "HcnEnumerate"+kind+"s", Arguments{Texts: []string{query(filter)}})
	if !r.ok() {
		return nil, r
	}
	var ids []string
	if err := json.Unmarshal([]byte(r.Output), &ids); err != nil {
		r.Error = errNoList.Error()
	}
	return ids, r
}

// with opens an object for one call. The record is that of the open when that failed.
func (e *exam) with(asks, kind, id string, use func(handle uint64) *Record) *Record {
	out, r := e.call(asks, "HcnOpen"+kind, Arguments{ID: id})
	if !r.ok() || out.Handle == 0 {
		return r
	}
	r = use(out.Handle)
	e.call("", "HcnClose"+kind, Arguments{Handle: out.Handle})
	return r
}

// read reads an object with its policies.
func (e *exam) read(asks, kind, id string) *Record {
	return e.with(asks, kind, id, func(h uint64) *Record {
		_, r := e.call(asks, "HcnQuery"+kind+"Properties", Arguments{Handle: h, ID: id, Texts: []string{query("")}})
		return r
	})
}

// modify sends a request to an object.
func (e *exam) modify(asks, kind, id, request string) *Record {
	return e.with(asks, kind, id, func(h uint64) *Record {
		_, r := e.call(asks, "HcnModify"+kind, Arguments{Handle: h, ID: id, Texts: []string{request}})
		return r
	})
}

// older asks the API before HCN, whose view of an object has other words.
func (e *exam) older(asks, path string) *Record {
	_, r := e.call(asks, "HNSCall", Arguments{Texts: []string{"GET", path, ""}})
	return r
}
