package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/simulate"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// TestReplayOfADoctor: npm replay reads the zip of npm doctor back, with the lines of then, and
// an exit code that says whether something is refuted.
func TestReplayOfADoctor(t *testing.T) {
	for name, tc := range map[string]struct {
		personality hnssim.Personality
		code        int
	}{
		"nothing is refuted": {hnssim.Personality{}, simulate.ExitOK},
		"no SCTP":            {hnssim.Personality{Refuses: []hnssim.Refusal{{What: hnssim.SCTP, Code: 0x80070032}}}, exitDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "doctor.zip")
			s := &standIn{Server: hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Personality: tc.personality})}
			said, err := examine(t, s.host(nil), "-o", file)
			require.NoError(t, err)

			code, out, errs := command(t, "", "replay", file)
			require.Equal(t, tc.code, code)
			require.Empty(t, errs)
			require.Equal(t, said, out)

			code, out, _ = command(t, "", "replay", file, "-o", "json")
			require.Equal(t, tc.code, code)
			var r doctor.Result
			require.NoError(t, json.Unmarshal([]byte(out), &r))
			require.Equal(t, readResult(t, file).Answers, r.Answers)

			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, text[:len(text)/2], 0o600))
			code, _, errs = command(t, "", "replay", file)
			require.Equal(t, simulate.ExitBadInput, code)
			require.NotContains(t, errs, "goroutine")
		})
	}
}
