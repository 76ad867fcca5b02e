package likeness_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/doctor/likeness"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

var update = flag.Bool("update", false, "write the zip of the stand-in anew")

// standInZip is of no Windows: it shows that a zip in this folder is a test.
const standInZip = "testdata/zips/stand-in.zip"

// TestZips: a simulator with the personality of each zip in testdata/zips answers every call
// of the doctor as that node did. What it does not is a failure with the record in it, and
// means that the simulator has to learn something. docs/evidence.md lists the zips.
func TestZips(t *testing.T) {
	if *update {
		refuses := []hnssim.Refusal{{What: hnssim.SCTP, Code: 0x80070032}, {What: hnssim.HostRules, Code: 0x803b000d}}
		s := standIn{hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Personality: hnssim.Personality{Refuses: refuses}})}
		began := time.Unix(1_700_000_000, 0).UTC()
		r := doctor.Run(t.Context(), s, doctor.Options{Node: doctor.Node{OS: "the stand-in of test/windows/hnsd"}, Now: func() time.Time { return began }})
		r.HashNames([]byte("stand-in"))
		var file bytes.Buffer
		require.NoError(t, r.WriteZip(&file))
		require.NoError(t, os.MkdirAll(filepath.Dir(standInZip), 0o755))
		require.NoError(t, os.WriteFile(standInZip, file.Bytes(), 0o600))
	}
	zips, err := filepath.Glob("testdata/zips/*.zip")
	require.NoError(t, err)
	require.Contains(t, zips, standInZip)
	evidence, err := os.ReadFile("../../../docs/evidence.md")
	require.NoError(t, err)
	for _, file := range zips {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			node, err := doctor.ReadZip(bytes.NewReader(text), int64(len(text)))
			require.NoError(t, err)
			is := likeness.Of(node)
			if differs := likeness.Differences(node, examined(t, is)); len(differs) > 0 {
				t.Errorf("a simulator like this node answers otherwise:\n%s", strings.Join(differs, "\n"))
			}
			if file == standInZip {
				require.Len(t, is.Refuses, 2, "the personality is the node's and not the usual one")
				require.NotEmpty(t, likeness.Differences(node, examined(t, hnssim.Personality{})), "and without it there are differences")
				return
			}
			require.Contains(t, string(evidence), "| "+filepath.Base(file)+" |", "docs/evidence.md has no line for it")
		})
	}
}
