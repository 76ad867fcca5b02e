package bounded

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestReader(t *testing.T) {
	l := Limits{Bytes: 60, Objects: 3, Values: 8, Depth: 4}
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":                   {"", ""},
		"at every limit":            {`{"a":[{"b":[1,2]},{"c":3}],"d":"x"}`, ""},
		"no JSON":                   {"}}]],", ""},
		"brackets in strings":       {`["{{{{","[[[[[,,,,,,,,","\"{{{{","\\"]`, ""},
		"bytes":                     {strings.Repeat(" ", 61), "above 60 bytes of JSON"},
		"bytes in a string":         {`"` + strings.Repeat("x", 100), "above 60 bytes of JSON"},
		"objects":                   {"[{},{},{},{}]", "above 3 JSON objects"},
		"values in a list":          {"[1,2,3,4,5,6,7,8,9]", "above 8 JSON values"},
		"empty lists are values":    {"[[],[],[],[],[]]", "above 8 JSON values"},
		"values in an object":       {`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`, "above 8 JSON values"},
		"depth":                     {"[[[[[", "above 4 levels of JSON"},
		"what follows a string":     {`["\\",{}{}{}{}]`, "above 3 JSON objects"},
		"a string that never ends":  {`{"a":"{{{{{{,,,,,,,,,,,`, ""},
		"an escape before the end":  {`{"a":"\\\"{{{{{{,,,,,,,,`, ""},
		"several texts, one behind": {"{}{}{}{}", "above 3 JSON objects"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				in := Reader(r, l)
				got, err := io.ReadAll(in)
				if tc.want == "" {
					require.NoError(t, err)
					require.Equal(t, tc.in, string(got))
					continue
				}
				require.ErrorIs(t, err, ErrTooMuch)
				require.ErrorContains(t, err, tc.want)
				_, again := in.Read(make([]byte, 1))
				require.Equal(t, err, again, "for good")
			}
		})
	}
	_, err := io.ReadAll(Reader(iotest.ErrReader(io.ErrUnexpectedEOF), l))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A value that is too much is not decoded, not even its first part.
func TestNothingIsDecoded(t *testing.T) {
	var got []struct{ A [64]int }
	err := json.NewDecoder(Reader(strings.NewReader("[{},{},{}]"), Limits{Bytes: 100, Objects: 2, Values: 100, Depth: 9})).Decode(&got)
	require.ErrorIs(t, err, ErrTooMuch)
	require.Empty(t, got)
}
