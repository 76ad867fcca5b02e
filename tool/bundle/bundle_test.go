package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/bounded"
)

func sample() Bundle {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Bundle{
		Dump:      state.Dump{Node: "n1", Time: at, Pods: []state.PodDump{{Pod: "x/a"}}},
		Recording: Recording{recorder.Header{Node: "n1", Taken: at}, []recorder.Step{{Number: 1, Kind: recorder.Transaction, Began: at}}},
	}
}

// write makes a bundle as an agent does.
func write(b Bundle) ([]byte, error) {
	var out bytes.Buffer
	err := debug.WriteBundle(&out, debug.Config{
		Dump: func() state.Dump { return b.Dump }, Recording: b.Recording.lines,
		Healthy: func() error { return nil }, Ready: func() error { return nil }, Version: "v1",
	})
	return out.Bytes(), err
}

// lines writes a recording as an agent does.
func (rec Recording) lines(w io.Writer) error {
	enc := json.NewEncoder(w)
	err := enc.Encode(rec.Header)
	for _, s := range rec.Steps {
		err = errors.Join(err, enc.Encode(s))
	}
	return err
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
		header := &zip.FileHeader{Name: f.name}
		if f.text != "" { // a compressor takes half a millisecond
			header.Method = zip.Deflate
		}
		w, err := z.CreateHeader(header)
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
	const head = `{"taken":"2026-01-02T03:04:05Z"}`
	version, state, steps := file{"version.txt", "v"}, file{"dump.json", dump}, file{"recording.jsonl", head}
	_, err = read1(zipped(t, version, state, steps, file{"more", "of it"}))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":           {nil, "zip: not a valid zip file"},
		"half of it":        {good[:len(good)/2], "zip: not a valid zip file"},
		"nothing in it":     {zipped(t), "open dump.json: file does not exist"},
		"no dump":           {zipped(t, version, steps), "open dump.json: file does not exist"},
		"another dump":      {zipped(t, version, file{"dump.json", "{}"}, steps), "dump.json: no dump of"},
		"no recording":      {zipped(t, version, state), "open recording.jsonl: file does not exist"},
		"another recording": {zipped(t, version, state, file{"recording.jsonl", "{}"}), "recording.jsonl: no recording: its first line says no time"},
		"wrong order":       {zipped(t, version, state, file{"recording.jsonl", head + strings.Repeat("{}", 1_000_000)}), "recording.jsonl: no recording: step 0 comes after step 0"},
		"half a line":       {zipped(t, version, state, file{"recording.jsonl", head + `{"number":`}), "recording.jsonl: no recording: unexpected EOF"},
		"an empty one":      {zipped(t, version, state, file{"recording.jsonl", ""}), "recording.jsonl: no recording: EOF"},
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
}

// What packs into some kilobytes costs no gigabytes: it is counted before it is
// decoded, and nobody waits for its end.
func TestBombs(t *testing.T) {
	effort.Unraced(t)
	const dump, recording = `{"NodeName":"n","time":"2026-01-02T03:04:05Z"`, `{"taken":"2026-01-02T03:04:05Z"}`
	list := func(entry string, n int) string { return "[" + strings.Repeat(entry+",", n) + entry + "]" }
	many := bounded.OfAnAgent.Objects
	for name, tc := range map[string]struct{ dump, recording, want string }{
		"structs":       {dump + `,"endpoints":` + list("{}", many), recording, "above 500000 JSON objects"},
		"structs, deep": {dump + `,"endpoints":[{"applied":` + list("{}", many), recording, "above 500000 JSON objects"},
		"unknown keys":  {dump + `,"x":` + list("{}", many), recording, "above 500000 JSON objects"},
		"strings":       {dump + `,"nodeAddresses":` + list(`""`, bounded.OfAnAgent.Values), recording, "above 4000000 JSON values"},
		"depth":         {dump + `,"pods":` + strings.Repeat("[", 100), recording, "above 64 levels of JSON"},
		"steps":         {dump + "}", recording + `{"number":1,"report":{"repairs":` + list("{}", many), "above 500000 JSON objects"},
		"calls":         {dump + "}", recording + `{"number":1,"kind":"transaction","calls":` + list("{}", many), "above 500000 JSON objects"},
	} {
		t.Run(name, func(t *testing.T) {
			bomb := zipped(t, file{"version.txt", "v"}, file{"dump.json", tc.dump}, file{"recording.jsonl", tc.recording})
			require.Less(t, len(bomb), 64<<10)
			before := effort.Allocated()
			_, err := read1(bomb)
			after := effort.Allocated()
			require.ErrorIs(t, err, ErrNoBundle)
			require.ErrorIs(t, err, bounded.ErrTooMuch)
			require.ErrorContains(t, err, tc.want)
			require.Less(t, after-before, uint64(100<<20), "bytes, of all that was ever in memory")
		})
	}
}

// What an agent writes in a cluster of 10,000 pods is far from every limit: the dump
// has a seventh of each at most.
func TestLargeClusterIsRead(t *testing.T) {
	effort.Unraced(t)
	b := sample()
	for i := range 10_000 {
		pod := state.PodDump{
			Pod: fmt.Sprintf("team-%d/app-7d9c5bf9c8-%05d", i%200, i), UID: fmt.Sprintf("3b7c5c1e-0000-4000-8000-%012d", i), Addr: "10.10.10.10",
			Labels: map[string]string{}, Ports: []string{"http:8080/TCP", "metrics:9090/TCP"},
		}
		for l := range 6 {
			pod.Labels[fmt.Sprintf("app.kubernetes.io/label-%d", l)] = fmt.Sprintf("value-%d", i%100)
		}
		b.Dump.Pods = append(b.Dump.Pods, pod)
	}
	for i := range 2_000 {
		set := state.SetDump{ID: "azure-npm-5ceop0zrwrj56cyuiub5", Name: fmt.Sprintf("podlabel-app:%d", i), Type: "IPSET"}
		for m := range 60 {
			set.Members = append(set.Members, fmt.Sprintf("10.10.10.%d", m))
		}
		b.Dump.Sets = append(b.Dump.Sets, set)
	}
	for i := range 110 {
		rules := make([]hns.ACL, 60)
		for r := range rules {
			rules[r] = hns.ACL{ID: "azure-acl-team/policy", Action: hns.Allow, Direction: hns.In, LocalAddresses: "azure-npm-5ceop0zrwrj56cyuiub5", Priority: 222}
		}
		source := state.RuleSource{TierSource: state.TierSource{Tier: "NetworkPolicy", Policy: "team/policy"}, Rules: []int{0}}
		b.Dump.Endpoints = append(b.Dump.Endpoints, state.EndpointDump{ID: fmt.Sprint(i), Applied: rules, Wanted: rules, Sources: slices.Repeat([]state.RuleSource{source}, len(rules))})
	}
	data, err := write(b)
	require.NoError(t, err)
	got, err := read1(data)
	require.NoError(t, err)
	require.Equal(t, len(b.Dump.Pods), len(got.Dump.Pods))

	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	dump, err := z.Open(debug.BundleDump)
	require.NoError(t, err)
	defer dump.Close()
	l := bounded.OfAnAgent
	_, err = io.Copy(io.Discard, bounded.Reader(dump, bounded.Limits{Bytes: l.Bytes / 10, Objects: l.Objects / 8, Values: l.Values / 7, Depth: l.Depth / 4}))
	require.NoError(t, err)
}

// The list of files of a zip file is bounded before it is read: each of its entries
// costs some hundred bytes.
func TestManyFiles(t *testing.T) {
	data := zipped(t, make([]file, effort.Of(6_500, 60_000))...)
	before := effort.Allocated()
	_, err := read1(data)
	after := effort.Allocated()
	require.ErrorIs(t, err, ErrNoBundle)
	require.ErrorContains(t, err, "its list of files is longer than 262144 bytes")
	require.Less(t, after-before, uint64(8<<20))
}

// FuzzRead: whatever a file has is refused, or is a bundle that is written and
// read the same way again.
func FuzzRead(f *testing.F) {
	seed, err := write(sample())
	require.NoError(f, err)
	f.Add(seed)
	f.Add(zipped(f, file{"version.txt", "v"}, file{"dump.json", `{"NodeName":"n","time":"2026-01-02T03:04:05Z"}`}, file{"recording.jsonl", `{"taken":"2026-01-02T03:04:05Z"}`}))
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
