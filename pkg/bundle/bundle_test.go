package bundle

import (
	"archive/zip"
	"bytes"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/recorder"
)

func sample() Bundle {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Bundle{
		Version:   "v1",
		Dump:      dataplane.Dump{Node: "n1", Time: at, Pods: []dataplane.PodDump{{Pod: "x/a"}}},
		Recording: recorder.Recording{Format: recorder.Format, Node: "n1", Taken: at, Steps: []recorder.Step{{Number: 1, Kind: recorder.Transaction, Began: at}}},
	}
}

// write makes a bundle as an agent does.
func write(b Bundle) ([]byte, error) {
	var out bytes.Buffer
	err := debug.WriteBundle(&out, debug.Config{
		Dump: func() dataplane.Dump { return b.Dump }, Recording: func() recorder.Recording { return b.Recording },
		Healthy: func() error { return nil }, Ready: func() error { return nil }, Version: b.Version,
	})
	return out.Bytes(), err
}

func read1(data []byte) (Bundle, error) { return Read(bytes.NewReader(data), int64(len(data))) }

func TestRead(t *testing.T) {
	data, err := write(sample())
	require.NoError(t, err)
	got, err := read1(data)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(sample(), got, cmpopts.EquateEmpty()))
}

type file struct{ name, text string }

func zipped(t testing.TB, files ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		w, err := z.Create(f.name)
		require.NoError(t, err)
		_, err = io.WriteString(w, f.text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

func TestReadRefuses(t *testing.T) {
	good, err := write(sample())
	require.NoError(t, err)
	const dump = `{"NodeName":"n","time":"2026-01-02T03:04:05Z"}`
	version, state, steps := file{"version.txt", "v"}, file{"dump.json", dump}, file{"recording.json", `{"format":1}`}
	_, err = read1(zipped(t, version, state, steps, file{"more", "of it"}))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":           {nil, "zip: not a valid zip file"},
		"half of it":        {good[:len(good)/2], "zip: not a valid zip file"},
		"nothing in it":     {zipped(t), "version.txt: is not there"},
		"a file twice":      {zipped(t, version, version), "version.txt: is there twice"},
		"no dump":           {zipped(t, version, steps), "dump.json: is not there"},
		"another dump":      {zipped(t, version, file{"dump.json", "{}"}, steps), "dump.json: no dump of"},
		"no recording":      {zipped(t, version, state), "recording.json: is not there"},
		"another recording": {zipped(t, version, state, file{"recording.json", "{}"}), "recording.json: no recording: its format is 0"},
		"a long version":    {zipped(t, file{"version.txt", strings.Repeat("v", 2000)}), "version.txt: is larger than 1024 bytes"},
		"many files":        {zipped(t, make([]file, maxFiles+1)...), "it has more than 64 files"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read1(tc.data)
			require.ErrorIs(t, err, ErrNoBundle)
			require.ErrorContains(t, err, tc.want)
			require.Empty(t, cmp.Diff(Bundle{}, b))
		})
	}
	_, err = Read(bytes.NewReader(nil), MaxSize+1)
	require.ErrorIs(t, err, ErrNoBundle)
	bomb := zipped(t, version, file{"dump.json", strings.Repeat(" ", 1<<20) + dump}, steps)
	_, err = read(bytes.NewReader(bomb), int64(len(bomb)), 1<<20)
	require.EqualError(t, err, "dump.json: is larger than 1048576 bytes")
}

// FuzzRead: whatever a file has is refused, or is a bundle that is written and
// read the same way again.
func FuzzRead(f *testing.F) {
	seed, err := write(sample())
	require.NoError(f, err)
	f.Add(seed)
	f.Add(zipped(f, file{"version.txt", "v"}, file{"dump.json", `{"NodeName":"n","time":"2026-01-02T03:04:05Z"}`}, file{"recording.json", `{"format":1}`}))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := read1(data)
		if err != nil {
			require.ErrorIs(t, err, ErrNoBundle)
			return
		}
		data, err = write(b)
		if err != nil {
			t.Skip("a year that RFC 3339 cannot write") // the only value that does not encode
		}
		again, err := read1(data)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(b, again, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})))
	})
}
