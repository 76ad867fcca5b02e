//go:build linux

package agent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// examine runs npm.exe doctor and reads its zip.
func examine(t *testing.T, h *host, flags ...string) (said string, r doctor.Result) {
	t.Helper()
	p := begin(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "doctor.zip")
	// A file and no pipe: whatever Wine starts besides may keep it open.
	output, err := os.Create(filepath.Join(dir, "output"))
	require.NoError(t, err)
	defer output.Close()
	cmd := exec.CommandContext(t.Context(), p.wine, append([]string{p.exe("npm"), "doctor", "-o", windowsPath(file)}, flags...)...)
	cmd.Env = slices.Concat(p.environ(), []string{"HNSD_ADDR=" + h.addr})
	cmd.Stdout, cmd.Stderr = output, output
	failed := cmd.Run()
	out, err := os.ReadFile(output.Name())
	require.NoError(t, err)
	require.NoError(t, failed, "%s", out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	r, err = doctor.ReadZip(bytes.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	return string(out), r
}

// TestDoctor: npm.exe doctor makes its calls with the DLLs, finds nothing that refutes what
// WinNPM assumes, and leaves nothing behind, neither in HNS nor a handle.
func TestDoctor(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	networks, endpoints, namespaces := h.Exists()
	for _, flags := range [][]string{nil, {"--l2bridge", "--hash-names", "--packets", "--packets-over-hns"}, {"--read-only"}} {
		h.ResetCounts()
		before := h.open()
		said, r := examine(t, h, flags...)
		require.Regexp(t, `^0 refuted, `, said)
		require.Empty(t, r.Differences)
		require.NotEmpty(t, r.Node.Build, "the registry is read")
		require.Equal(t, slices.Contains(flags, "--packets"), len(r.Questions) > 15, "questions with packets")
		is, left, spaces := h.Exists()
		require.Equal(t, []any{networks, endpoints, namespaces}, []any{is, left, spaces})
		require.Equal(t, before, h.open(), "handles of HNS; failed: %v", h.Failed())
	}
}

// TestDoctorDiffers: what HNS answers otherwise is in the zip that npm.exe writes.
func TestDoctorDiffers(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	h.Refuse(func(request string) bool { return bytes.Contains([]byte(request), []byte(`"132"`)) }, 0x80070032)
	h.Inject(hnsd.Fault{Proc: "HNSCall", Times: -1, Code: 0x80004005})
	said, r := examine(t, h)
	require.Contains(t, said, "refuted: A10 a rule takes SCTP with ports: rules: SCTP: 0x80070032 ERROR_NOT_SUPPORTED")
	require.Contains(t, said, "refuted: W12 ")
	require.Equal(t, 2, r.Count(doctor.Refuted))
}

// TestDoctorRestart: npm.exe restarts the service of HNS, sees another process of it, and tells
// what its network has afterwards.
func TestDoctorRestart(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	start(t, ownNode, h.addr, options{flags: calm}) // services end with the last program of a user
	p.control(t, "create", "binPath=", windowsPath(p.exe("hns")))
	t.Cleanup(func() { p.control(t, "delete") })
	p.control(t, "start")
	t.Cleanup(func() { p.control(t, "stop") })
	said, r := examine(t, h, "--restart-hns")
	require.Regexp(t, `^0 refuted, `, said)
	for _, a := range r.Answers {
		if slices.Contains([]string{"E7", "E8", "E9", "S18"}, a.ID) {
			require.Equal(t, doctor.Held, a.Verdict, "%s: %+v", a.ID, a.Findings)
		}
	}
	_, endpoints, namespaces := h.Exists()
	require.Zero(t, endpoints+namespaces)
}

// TestDoctorPackets: what a switch does otherwise than WinNPM assumes is in the zip too.
func TestDoctorPackets(t *testing.T) {
	begin(t)
	o := azure()
	o.Meaning = hnssim.Meaning{CommaIsOr: true, Resets: true}
	said, r := examine(t, newHost(t, o), "--packets", "--packets-over-hns")
	require.Contains(t, said, "refuted: S1 ")
	require.Contains(t, said, "refuted: A21 ")
	require.Equal(t, 2, r.Count(doctor.Refuted))
}
