package controllers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func kind(apiVersion, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
}

func TestRESTConfig(t *testing.T) {
	dir := t.TempDir()
	whole, empty, broken := filepath.Join(dir, "whole"), filepath.Join(dir, "empty"), filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(whole, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
  users: [{name: a, user: {token: secret}}], clusters: [{name: a, cluster: {server: "https://server"}}]}`), 0o600))
	cfg, err := RESTConfig(whole)
	require.NoError(t, err)
	require.Equal(t, []string{"https://server", "secret"}, []string{cfg.Host, cfg.BearerToken})
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(broken, []byte("a: ["), 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for file, want := range map[string]string{
		dir + "/none": "kubeconfig " + dir + "/none: stat " + dir + "/none: no such file or directory",
		empty:         "kubeconfig " + empty + ": names no cluster; check its current-context",
		broken:        "kubeconfig " + broken + `: error loading config file "` + broken + `": yaml: line 1: did not find expected node content`,
		"":            "no kubeconfig given and not in a cluster: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
	} {
		_, err := RESTConfig(file)
		require.EqualError(t, err, want)
	}
}
