package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// person is somebody with a kubeconfig and the plugin.
type person struct{ plugin, kubeconfig string }

// newPerson returns a member of a group.
func newPerson(t *testing.T, group string) person {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
 contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
 users: [{name: u, user: {token: %s, as: somebody, as-groups: [%s]}}]}
`, admin.Host, base64.StdEncoding.EncodeToString(admin.CAData), admin.BearerToken, group), 0o600))
	return withPlugin(t, kubeconfig)
}

// withPlugin returns the person of a kubeconfig.
func withPlugin(t *testing.T, kubeconfig string) person {
	t.Helper()
	p := person{filepath.Join(t.TempDir(), "kubectl-npm"), kubeconfig}
	require.NoError(t, os.Symlink(filepath.Join(bin, "kubectl-npm"), p.plugin))
	return p
}

// trace runs the plugin as kubectl does.
func (p person) trace(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return p.npm(t, append([]string{"trace"}, args...)...)
}

// npm runs a command of kubectl npm.
func (p person) npm(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), p.plugin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		return exited.ExitCode(), out.String(), errs.String()
	}
	require.NoError(t, err)
	return 0, out.String(), errs.String()
}
