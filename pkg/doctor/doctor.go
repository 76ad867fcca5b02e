package doctor

import (
	"context"
	"time"
)

// Node is what the doctor reads of the node beside HNS.
type Node struct {
	OS       string `json:"os"`       // its name, as Windows gives it
	Build    string `json:"build"`    // like 20348
	Revision string `json:"revision"` // of the build: which updates it has
	// Keys are the switches of HNS in the registry, by name; nil: they cannot be read.
	Keys map[string]string `json:"keys"`
	// Program is the version of who asks.
	Program string `json:"program"`
}

// Options say what is done.
type Options struct {
	Node
	// ReadOnly leaves out everything that writes.
	ReadOnly bool
	// L2Bridge makes the doctor's own network one of pods; otherwise it is a NAT, which
	// leaves the node's own connection alone.
	L2Bridge bool
	// Wire sends packets between endpoints of the own network; nil: nobody does.
	Wire Wire
	// Scale is how much of anything is asked for at most; 0: nobody asks. More than 65536 of
	// anything is never asked for.
	Scale int
	// Service restarts HNS, to see what survives that; nil: nobody does.
	Service Service
	// Now is the clock.
	Now func() time.Time
	// Progress is told of each probe that begins; nil: nobody is.
	Progress func(probe string)
}

// Result is all that an examination found.
type Result struct {
	Began       time.Time `json:"began"`
	Node        Node      `json:"node"`
	OwnNetwork  string    `json:"ownNetwork"`       // its type; empty: none was asked for
	Left        []string  `json:"left,omitempty"`   // what could not be taken away again
	Broken      string    `json:"broken,omitempty"` // why it did not come to its end
	Hashed      bool      `json:"hashed"`           // names are replaced
	Answers     []Answer  `json:"answers"`
	Differences []Finding `json:"differences,omitempty"` // from the simulator, about no assumption

	Questions []Question `json:"questions,omitempty"` // asked with packets

	Records []*Record `json:"-"` // they have a file of their own
}

// Run asks HNS. It comes to its end when ctx does, and takes away then what it made.
func Run(ctx context.Context, library Library, o Options) Result {
	e := &exam{ctx: ctx, library: library, now: o.Now, progress: o.Progress, wire: o.Wire, scale: o.Scale, service: o.Service}
	out := Result{Began: o.Now(), Node: o.Node}
	e.readOnly(o.Node)
	if !o.ReadOnly {
		out.OwnNetwork = typeOfOwn(o.L2Bridge)
		out.Left = e.ownNetwork(out.OwnNetwork)
	}
	e.codes()
	e.slowest()
	if e.stopped() {
		out.Broken = context.Cause(ctx).Error()
	}
	out.Records, out.Questions = e.records, e.questions
	out.Answers, out.Differences = conclude(e.findings)
	return out
}

// begin starts a probe; false: there is nobody to ask any more.
func (e *exam) begin(probe string) bool {
	e.probe = probe
	if e.stopped() {
		return false
	}
	if e.progress != nil {
		e.progress(probe)
	}
	return true
}

func (e *exam) stopped() bool { return e.ctx.Err() != nil }
