package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// writeJSON writes a result, endpoint by endpoint and verdict by verdict, as there can be
// millions.
func (r Result) writeJSON(w io.Writer) error {
	j := newJSONWriter(w)
	j.put(`{"sets":`, r.Sets)
	j.text(`,"endpoints":[`)
	sep := ""
	for e := range r.Endpoints {
		j.text(sep)
		j.inline(e)
		if sep = ","; j.err != nil {
			return j.err
		}
	}
	j.text("]\n,\"verdicts\":[\n")
	sep = ""
	for v, err := range r.Verdicts {
		if err != nil {
			return err
		}
		j.put(sep, v)
		if sep = ","; j.err != nil {
			return j.err
		}
	}
	j.text("]")
	if len(r.Workloads) > 0 {
		j.put(`,"workloads":`, r.Workloads)
	}
	j.put(`,"calls":`, r.Calls)
	j.put(`,"warnings":`, r.Warnings)
	j.text("}\n")
	return j.flush()
}

// jsonWriter writes a JSON document in parts, until something fails.
type jsonWriter struct {
	to  *bufio.Writer
	one bytes.Buffer // a value
	enc *json.Encoder
	err error
}

func newJSONWriter(w io.Writer) *jsonWriter {
	j := &jsonWriter{to: bufio.NewWriter(w)}
	j.enc = json.NewEncoder(&j.one)
	j.enc.SetEscapeHTML(false)
	return j
}

// text writes what is between values.
func (j *jsonWriter) text(s string) {
	if j.err == nil {
		_, j.err = j.to.WriteString(s)
	}
}

// inline writes a value.
func (j *jsonWriter) inline(v any) {
	if j.err != nil {
		return
	}
	j.one.Reset()
	if j.err = j.enc.Encode(v); j.err == nil {
		_, j.err = j.to.Write(bytes.TrimSuffix(j.one.Bytes(), []byte("\n")))
	}
}

// put writes a value that ends its line.
func (j *jsonWriter) put(before string, v any) {
	j.text(before)
	j.inline(v)
	j.text("\n")
}

func (j *jsonWriter) flush() error {
	if j.err != nil {
		return j.err
	}
	return j.to.Flush()
}
