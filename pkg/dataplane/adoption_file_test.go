package dataplane_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// TestAdoptionFile keeps the cluster, its policies and what the predecessor made
// of them in a file, from which the suite of npm.exe takes over too.
func TestAdoptionFile(t *testing.T) {
	sim := adoptedNode(t).sim
	inHNS, err := json.MarshalIndent(map[string]any{"Sets": sim.Sets(), "Endpoints": sim.Endpoints()}, "", " ")
	require.NoError(t, err)
	archive := txtar.Archive{
		Comment: []byte(strings.Join(adoptedCluster, "\n") + "\n"),
		Files: append(txtar.Parse([]byte(adoptedPolicies)).Files,
			txtar.File{Name: "hns", Data: append(inHNS, '\n')}),
	}
	path := filepath.Join("testdata", "adoption", "azure-npm.txtar")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, txtar.Format(&archive), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(txtar.Format(&archive)))
}
