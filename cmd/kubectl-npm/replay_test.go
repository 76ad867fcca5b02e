package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/tool/bundle"
)

// shopBundle writes the bundle of a simulated shop, its recording alone, and one
// in which HNS refused something.
func shopBundle(t *testing.T) (file, alone, refused string) {
	t.Helper()
	file, texts := bundleOf(t, shop)
	dir := t.TempDir()
	alone, refused = filepath.Join(dir, "recording.jsonl"), filepath.Join(dir, "refused.jsonl")
	text := texts[debug.BundleRecording]
	require.NoError(t, os.WriteFile(alone, []byte(text), 0o600))

	rec, err := bundle.ReadRecording(strings.NewReader(text))
	require.NoError(t, err)
	i := slices.IndexFunc(rec.Steps[0].Calls, func(c recorder.Call) bool { return c.Op == hns.OpSets(hns.Add) })
	rec.Steps[0].Calls[i].Error = &recorder.Error{Message: "HNS is away"}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	require.NoError(t, errors.Join(enc.Encode(rec.Header), enc.Encode(rec.Steps[0])))
	require.NoError(t, os.WriteFile(refused, out.Bytes(), 0o600))
	return file, alone, refused
}

func TestReplay(t *testing.T) {
	file, alone, refused := shopBundle(t)
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stdout string // a part of it; "" for nothing at all
		stderr string // a part of the line; "" for nothing at all
	}{
		{"a bundle", []string{file}, 0, "1 step, 0 failed calls\n", ""},
		{"a recording", []string{alone}, 0, "1 step, 0 failed calls\n", ""},
		{"a failed call", []string{refused}, 0, "FAILED: HNS is away\n1 step, 1 failed call\n", ""},

		{"no file", []string{"none.zip"}, 1, "", "kubectl npm: replay: none.zip: open none.zip: no such file"},
		{"no bundle", []string{"../../README.md"}, 1, "", "kubectl npm: replay: ../../README.md: " + bundle.ErrNoRecording.Error()},
		{"another zip", []string{zipOf(t, nil)}, 1, "", bundle.ErrNoBundle.Error()},

		{"nothing", nil, 2, "", "replay: 0 arguments: write the file of one support bundle"},
		{"no output", []string{file, "-o", "json"}, 2, "", "unknown shorthand flag: 'o' in -o"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := command(t, "", append([]string{"replay"}, tc.args...)...)
			require.Equal(t, tc.code, code, stderr)
			if tc.stdout == "" {
				require.Empty(t, stdout)
				require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
				require.Contains(t, stderr, tc.stderr)
				return
			}
			require.Contains(t, stdout, tc.stdout)
			require.Empty(t, stderr)
		})
	}
}
