package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/policy"
)

var update = flag.Bool("update", false, "rewrite the want parts of testdata")

// TestGolden compiles the policies of each archive: name.yaml in, name.want out.
func TestGolden(t *testing.T) {
	golden(t, "testdata/*.txtar", func(data string) string { return text(policy.Compile(parse(t, data))) })
}

// TestGoldenCluster does the same for ClusterNetworkPolicies.
func TestGoldenCluster(t *testing.T) {
	golden(t, "testdata/cluster/*.txtar", func(data string) string {
		var cnp v1alpha2.ClusterNetworkPolicy
		require.NoError(t, yaml.UnmarshalStrict([]byte(data), &cnp))
		return clusterText(policy.CompileCluster(&cnp))
	})
}

func golden(t *testing.T, pattern string, compile func(data string) string) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			got := compileArchive(archive, compile)
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o644))
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" && !*update {
				t.Errorf("not as recorded; if it should be so, run with -update (-recorded +got):\n%s", diff)
			}
		})
	}
}

func compileArchive(archive *txtar.Archive, compile func(data string) string) *txtar.Archive {
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, isPolicy := strings.CutSuffix(f.Name, ".yaml")
		if !isPolicy {
			continue
		}
		want := txtar.File{Name: name + ".want", Data: []byte(compile(string(f.Data)))}
		out.Files = append(out.Files, f, want)
	}
	return out
}

// parse reads one policy strictly, so that a typing error is not a feature
// that silently is not tested.
func parse(t *testing.T, data string) *networkingv1.NetworkPolicy {
	t.Helper()
	var np networkingv1.NetworkPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(data), &np))
	return &np
}

// parseSpec reads what stands under spec of policy x/p.
func parseSpec(t *testing.T, spec string) *networkingv1.NetworkPolicy {
	t.Helper()
	np := &networkingv1.NetworkPolicy{}
	np.Namespace, np.Name = "x", "p"
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &np.Spec))
	return np
}
