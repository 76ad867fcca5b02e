package main

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/bounded"
)

const blank = "                                                                "

// spaces is an endless text, like that of a device.
type spaces struct{ read int64 }

func (s *spaces) Read(p []byte) (int, error) {
	s.read += int64(len(p))
	for n := 0; n < len(p); n += len(blank) {
		copy(p[n:], blank)
	}
	return len(p), nil
}

// commandOn runs a command line with a standard input, which may be endless.
func commandOn(t *testing.T, in io.Reader, args string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), strings.Fields(args), cli.Streams{In: in, Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}

// writeBundle writes a support bundle with the text of a dump.
func writeBundle(t testing.TB, file string, dump io.Reader) {
	t.Helper()
	out, err := os.Create(file)
	require.NoError(t, err)
	z := zip.NewWriter(out)
	for name, text := range map[string]io.Reader{
		debug.BundleVersion: strings.NewReader("v1"), debug.BundleDump: dump, debug.BundleRecording: strings.NewReader("{}"),
	} {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = io.Copy(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, out.Close())
}

// If a file or standard input is too large or endless, the command stops reading at its limit and
// prints an error of one line.
func TestInputsAreBounded(t *testing.T) {
	effort.Unraced(t)
	dir := t.TempDir()
	large, folder := filepath.Join(dir, "large.yaml"), filepath.Join(dir, "parts")
	sparse := func(file string, size int64) {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Truncate(file, size))
	}
	sparse(large, 200<<20)
	require.NoError(t, os.Mkdir(folder, 0o700))
	for _, part := range []string{"a", "b", "c", "d", "e"} {
		sparse(filepath.Join(folder, part+".yaml"), bounded.MaxInput)
	}
	bomb := filepath.Join(dir, "bomb.zip")
	writeBundle(t, bomb, io.LimitReader(&spaces{}, bounded.MaxInput+1))
	const one, all = "too large: a command reads 64 MiB of one input", "too large: a command reads 256 MiB in all"
	for args, want := range map[string]string{
		"simulate --once --manifests -":                                              "kubectl npm: simulate: stdin: cannot be read: " + one,
		"simulate --once --manifests " + large:                                       "kubectl npm: simulate: " + large + ": cannot be read: " + one,
		"simulate --once --manifests " + folder:                                      "kubectl npm: simulate: " + filepath.Join(folder, "e.yaml") + ": cannot be read: " + all,
		"trace a/b->c/d:1/TCP --manifests -":                                         "kubectl npm: trace: stdin: cannot be read: " + one,
		"trace a/deploy/b->c/d:1/TCP --manifests -":                                  "kubectl npm: trace: stdin: cannot be read: " + one,
		"trace a/b->c/d:1/TCP --manifests " + large:                                  "kubectl npm: trace: " + large + ": cannot be read: " + one,
		"trace a/b->c/d:1/TCP --dump -":                                              "kubectl npm: trace: stdin: " + one,
		"trace a/b->c/d:1/TCP --dump " + large:                                       "kubectl npm: trace: " + large + ": " + one,
		"trace a/b->c/d:1/TCP --dump " + bomb:                                        "kubectl npm: trace: " + bomb + ": no support bundle: dump.json: is larger than 67108864 bytes",
		"plan -f - --manifests " + shop:                                              "kubectl npm: plan: stdin: cannot be read: " + one,
		"plan -f " + large + " --manifests " + shop:                                  "kubectl npm: plan: " + large + ": cannot be read: " + one,
		"plan -f " + shop + " --dump " + large:                                       "kubectl npm: plan: " + large + ": " + one,
		"replay " + large:                                                            "kubectl npm: replay: " + large + ": " + one,
		"replay " + bomb:                                                             "kubectl npm: replay: " + bomb + ": no support bundle: dump.json: is larger than 67108864 bytes",
		"support-bundle --manifests " + large + " -o " + filepath.Join(dir, "b.zip"): "kubectl npm: support-bundle: " + large + ": cannot be read: " + one,
	} {
		in := &spaces{}
		code, stdout, stderr := commandOn(t, in, args)
		require.Equal(t, cli.ExitBadInput, code, args)
		require.Empty(t, stdout, args)
		require.Equal(t, want+"\n", stderr)
		require.LessOrEqual(t, in.read, int64(bounded.MaxInput+1), args)
	}
}

// The two sets of manifests that plan reads share one limit.
func TestInputsOfAPlanCountTogether(t *testing.T) {
	effort.Unraced(t)
	dir := t.TempDir()
	comment := []byte("#" + strings.Repeat(" ", bounded.MaxInput-1))
	for _, half := range []string{"old", "new"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, half), 0o700))
		for _, part := range []string{"a", "b", "c"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, half, part+".yaml"), comment, 0o600))
		}
	}
	code, _, stderr := command(t, "", "plan", "-f", filepath.Join(dir, "new"), "-f", filepath.Join(shop, "21-shop-policies.yaml"), "--manifests", filepath.Join(dir, "old"))
	require.Equal(t, cli.ExitBadInput, code)
	require.Equal(t, "kubectl npm: plan: "+filepath.Join(dir, "old", "a.yaml")+": cannot be read: too large: a command reads 256 MiB in all\n", stderr)
}
