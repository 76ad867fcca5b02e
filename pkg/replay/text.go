package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// maxFindings bounds the findings of one step in a text.
const maxFindings = 12

// View says which part of a Result to write.
type View struct {
	From, To uint64 // steps; 0 for no bound
	Verbose  bool   // every call, and every finding
}

// shows reports whether a step is to be written.
func (v View) shows(number uint64) bool {
	return number >= v.From && (v.To == 0 || number <= v.To)
}

// WriteText writes a result for people: a line for every step, with what was
// found beneath, and a summary at the end.
func (r *Result) WriteText(w io.Writer, v View) error {
	b := &printable.Page{}
	b.Line(0, "recorded on %s by %s, taken %s", cmp.Or(r.Node, "an unnamed node"), cmp.Or(r.Agent, "an unknown version"), r.Taken.UTC().Format(time.RFC3339))
	if r.Start {
		b.Line(0, "it begins with the start of the process")
	} else {
		b.Line(0, "it begins with a dump, which does not have everything: what may follow from that is a note")
	}
	if r.Older {
		b.Line(0, "recorded by an older build, which read HNS in another way: what this build would do is not compared")
	}
	for _, s := range r.Steps {
		if !v.shows(s.Number) {
			continue
		}
		verdict := "ok"
		if n := differences(s.Findings); n > 0 {
			verdict = count(n, "difference")
		}
		b.Line(0, "%d  +%s  %s  %s  %s  %s", s.Number, seconds(s.Offset), s.Came, s.calls(), seconds(s.Took), verdict)
		s.writeCalls(b, v)
		writeFindings(b, s.Findings, v)
		s.writeDetail(b)
	}
	if len(r.Final) > 0 {
		b.Line(0, "at the end")
		writeFindings(b, r.Final, v)
	}
	b.Line(0, "%s", r.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes a result as JSON.
func (r *Result) WriteJSON(w io.Writer, v View) error {
	out := *r
	out.Steps = slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return !v.shows(s.Number) })
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}

// Summary is the result in one line.
func (r *Result) Summary() string {
	text := count(len(r.Steps), "step") + ", "
	switch {
	case r.Differences == 0:
		text += "no differences"
	case r.First == 0:
		text += count(r.Differences, "difference") + ", at the end"
	default:
		text += fmt.Sprintf("%s, first at step %d: %s", count(r.Differences, "difference"), r.First, r.first())
	}
	if r.Stopped != "" {
		text += "; stopped: " + r.Stopped
	}
	return text
}

// first is the text of the first difference.
func (r *Result) first() string {
	for _, s := range r.Steps {
		for _, f := range s.Findings {
			if f.Kind != Note {
				return f.Text
			}
		}
	}
	return ""
}

// seconds is a duration for people.
func seconds(d time.Duration) string {
	if d > time.Second || d < -time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// calls are the calls of a step in short: "ACL/Add 2, Endpoint/Get 4".
func (s *Step) calls() string {
	n, failed := map[string]int{}, 0
	for _, c := range s.Calls {
		n[c.Op]++
		if c.Error != "" {
			failed++
		}
	}
	var parts []string
	for _, op := range sorted(n) {
		parts = append(parts, fmt.Sprintf("%s %d", op, n[op]))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", failed))
	}
	if s.DLLCalls > 0 {
		parts = append(parts, count(s.DLLCalls, "DLL call"))
	}
	return cmp.Or(strings.Join(parts, ", "), "no call")
}

func (s *Step) writeCalls(b *printable.Page, v View) {
	if !v.Verbose {
		return
	}
	for i, c := range s.Calls {
		what := c.Op
		if c.Endpoint != "" {
			what += " " + c.Endpoint
		}
		b.Line(2, "call %d  %s (%d)  %s  %s  %s", i+1, what, c.Count, seconds(c.Took), count(c.DLLCalls, "DLL call"), c.Error)
	}
	if s.Others > 0 {
		b.Line(2, "others changed their own: %s", count(s.Others, "endpoint"))
	}
}

func writeFindings(b *printable.Page, findings []Finding, v View) {
	for i, f := range findings {
		if i == maxFindings && !v.Verbose {
			b.Line(2, "… and %d more; --verbose shows them", len(findings)-i)
			return
		}
		where := ""
		if f.Call > 0 {
			where = fmt.Sprintf(" (call %d, %s)", f.Call, f.Op)
		}
		head := "DIFFERENCE"
		if f.Kind == Note {
			head = "note"
		}
		text := f.Text
		if len(f.Lines) > 0 {
			text += " (" + f.Legend + ")"
		}
		b.Line(2, "%s%s: %s", head, where, text)
		for _, line := range f.Lines {
			b.Line(3, "%s", line)
		}
	}
}

func (s *Step) writeDetail(b *printable.Page) {
	d := s.Detail
	if d == nil {
		return
	}
	for _, e := range d.Recorded.Events {
		b.Line(2, "event  %s %s %s%s", e.Operation, e.Kind, e.Object, object(e))
	}
	for i, c := range d.Recorded.Calls {
		b.Line(2, "call %d  %s %s  +%s, took %s", i+1, c.Op, c.Endpoint, seconds(c.Began.Sub(d.Recorded.Began)), seconds(c.Took))
		for _, line := range arguments(c) {
			b.Line(3, "%s", line)
		}
		if c.Error != nil {
			b.Line(3, "-> %s", c.Error.Message)
		}
	}
	if r := d.Recorded.Report; r != nil {
		b.Line(2, "report  %s, %s, %s", cmp.Or(r.Plan, "nothing to write"), count(len(r.Errors), "error"), count(r.Pending, "pending pod"))
		for _, w := range r.Warnings {
			b.Line(3, "warning %s %s %s: %s", w.Kind, w.Object, w.Reason, w.Message)
		}
	}
	b.Line(2, "HNS after it")
	for _, set := range d.Sets {
		if set.Values == nil {
			b.Line(3, "no set %s", set.Name)
			continue
		}
		b.Line(3, "set %s: %s", set.Name, strings.Join(set.Values, " "))
	}
	for _, e := range d.Endpoints {
		if !e.There {
			b.Line(3, "no endpoint %s", e.ID)
			continue
		}
		b.Line(3, "endpoint %s, %s of others", e.ID, count(e.Others, "policy"))
		for _, rule := range e.Rules {
			b.Line(4, "%s", rule)
		}
	}
}

// object is what came in of an object, as JSON.
func object(e recorder.Event) string {
	var is any
	switch {
	case e.Pod != nil:
		is = e.Pod
	case e.Namespace != nil:
		is = e.Namespace.Labels
	case e.Policy != nil:
		is = e.Policy.Spec
	case e.NodeAddrs != nil:
		is = e.NodeAddrs
	default:
		return ""
	}
	text, err := json.Marshal(is)
	if err != nil {
		return " " + err.Error()
	}
	return " " + string(text)
}

// arguments are what a call sent or read, a line each.
func arguments(c recorder.Call) []string {
	var out []string
	set := func(s recorder.SetValue) {
		values := strings.Join(s.Values, " ")
		if s.Values == nil && s.Count > 0 {
			values = count(s.Count, "member") + ", not kept"
		}
		out = append(out, fmt.Sprintf("set %s %s: %s", s.Type, s.Name, values))
	}
	for _, s := range c.Sets {
		set(s)
	}
	if c.Network != nil {
		for _, s := range c.Network.Sets {
			set(s)
		}
	}
	if (c.Op == hns.OpEndpointIDs || c.Op == hns.OpEndpointNew) && c.Error == nil && !c.Running {
		ids := strings.Join(c.IDs, " ")
		if c.Cut {
			ids = count(c.Count, "GUID") + ", not kept"
		}
		out = append(out, "endpoints: "+ids)
	}
	out = append(out, rules(c.ACLs)...)
	for _, p := range c.Policies {
		out = append(out, fmt.Sprintf("policy %s %s", p.Type, p.Settings))
	}
	for _, e := range c.Endpoints {
		out = append(out, fmt.Sprintf("endpoint %s %v: %s", e.ID, e.Addrs, count(e.Count, "policy")))
		for _, p := range e.Policies {
			out = append(out, fmt.Sprintf("  policy %s %s", p.Type, p.Settings))
		}
	}
	return out
}
