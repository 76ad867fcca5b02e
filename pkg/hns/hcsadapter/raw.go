package hcsadapter

import (
	"context"
	"strings"
)

// Arguments are those of one call of an export of HNS, which takes some of them.
type Arguments struct {
	// Handle is that of an open object; the network's, when an endpoint is made.
	Handle uint64
	ID     string   // GUID of the object
	Texts  []string // query, request or settings; of HNSCall method, path and request
}

// Outcome is what a call came to, as HNS said it.
type Outcome struct {
	HResult uint32
	Record  string // the error record; empty: none
	Output  string
	Handle  uint64 // of what was opened or made; 0: nothing
}

// Raw makes single calls of HNS's exports, one at a time, for whoever wants to see each
// answer as it is. Nobody classifies, repeats or closes anything.
type Raw struct {
	do     func(export string, a Arguments) (Outcome, error)
	worker *worker
}

// Call makes one call. Its error says that there is no answer: the export does not exist, an
// argument is none, ctx ended, or the call hangs.
func (r *Raw) Call(ctx context.Context, export string, a Arguments) (Outcome, error) {
	return call(ctx, r.worker, export, func() (Outcome, error) { return r.do(export, a) })
}

// Close ends the worker as soon as it has no call.
func (r *Raw) Close() { r.worker.shut() }

// shape says which arguments an export takes, in this order, and where it puts its answers.
type shape struct {
	handle, id        bool
	texts             int
	opens, output, rc bool // rc: it has an error record
}

// shapes are those of the verbs of computenetwork.dll. The three kinds of objects have the
// same, but that an endpoint is made in an open network (Microsoft's HCN API reference).
var shapes = map[string]shape{
	"Enumerate": {texts: 1, output: true, rc: true},
	"Open":      {id: true, opens: true, rc: true},
	"Create":    {id: true, texts: 1, opens: true, rc: true},
	"Query":     {handle: true, texts: 1, output: true, rc: true},
	"Modify":    {handle: true, texts: 1, rc: true},
	"Delete":    {id: true, rc: true},
	"Close":     {handle: true},
}

// shapeOf returns the DLL and the shape of an export; ok is false for one that is not HNS's.
func shapeOf(export string) (dll string, s shape, ok bool) {
	if export == "HNSCall" {
		return "vmcompute.dll", shape{texts: 3, output: true}, true
	}
	rest, ours := strings.CutPrefix(export, "Hcn")
	for verb, s := range shapes {
		if ours && strings.HasPrefix(rest, verb) {
			s.handle = s.handle || export == "HcnCreateEndpoint"
			return "computenetwork.dll", s, true
		}
	}
	return "", shape{}, false
}
