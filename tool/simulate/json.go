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
	out := bufio.NewWriter(w) // it keeps the first error of a write
	var one bytes.Buffer      // a value
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	put := func(before string, v any, after string) error {
		one.Reset()
		if err := enc.Encode(v); err != nil {
			return err
		}
		_, _ = out.WriteString(before)
		_, _ = out.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n")))
		_, err := out.WriteString(after)
		return err
	}
	if err := put(`{"sets":`, r.Sets, "\n,\"endpoints\":["); err != nil {
		return err
	}
	sep := ""
	for e := range r.Endpoints {
		if err := put(sep, e, ""); err != nil {
			return err
		}
		sep = ","
	}
	_, _ = out.WriteString("]\n,\"verdicts\":[\n")
	sep = ""
	for v, err := range r.Verdicts {
		if err == nil {
			err = put(sep, v, "\n")
		}
		if err != nil {
			return err
		}
		sep = ","
	}
	_, _ = out.WriteString("]")
	if len(r.Workloads) > 0 {
		if err := put(`,"workloads":`, r.Workloads, "\n"); err != nil {
			return err
		}
	}
	if err := put(`,"calls":`, r.Calls, "\n"); err != nil {
		return err
	}
	if err := put(`,"warnings":`, r.Warnings, "\n}\n"); err != nil {
		return err
	}
	return out.Flush()
}
