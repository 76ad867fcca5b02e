//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/controllers"
)

const deploy = "../../../deploy/base"

// In a HostProcess container, with the rights, the configuration and the
// environment of deploy/, npm.exe finds what it needs.
func TestAsDeployed(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.rights(filepath.Join(deploy, "rbac.yaml"))

	var set struct {
		Spec struct{ Template struct{ Spec corev1.PodSpec } }
	}
	readYAML(t, filepath.Join(deploy, "daemonset.yaml"), &set)
	var config corev1.ConfigMap
	readYAML(t, filepath.Join(deploy, "configmap.yaml"), &config)

	mount := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(mount, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	cluster, err := controllers.RESTConfig(p.kubeconfig)
	require.NoError(t, err)
	const secrets = "var/run/secrets/kubernetes.io/serviceaccount"
	write(filepath.Join(secrets, "token"), w.token("kube-system", set.Spec.Template.Spec.ServiceAccountName))
	write(filepath.Join(secrets, "ca.crt"), string(cluster.CAData))
	server, err := url.Parse(cluster.Host)
	require.NoError(t, err)
	env := []string{
		"CONTAINER_SANDBOX_MOUNT_POINT=" + windowsPath(mount),
		"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port(),
	}
	container := set.Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"start"}, container.Args)
	for _, v := range container.Env {
		if v.Value != "" { // the others are fields of the pod
			env = append(env, v.Name+"="+v.Value)
		}
	}
	for name, content := range config.Data {
		folder := strings.ReplaceAll(strings.ReplaceAll(container.VolumeMounts[0].MountPath, `\\`, `\`), `\`, "/")
		write(filepath.Join(folder, name), content)
	}

	n := start(t, ownNode, h.addr, options{dir: mount, env: env})
	n.waitReady()
	h.waitShop(false)
	require.Regexp(t, `Using config file: .*azure-npm\.json`, n.said())
	require.NotContains(t, n.said(), `"level":"warn"`)
	require.NotContains(t, n.said(), `"level":"error"`)
}

// rights creates what a file has of accounts, roles and bindings.
func (w *world) rights(path string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(w.t, err)
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		require.NoError(w.t, yaml.Unmarshal(document, &object))
		at := "/apis/rbac.authorization.k8s.io/v1/" + strings.ToLower(object.Kind) + "s"
		if object.Kind == "ServiceAccount" {
			at = fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts", object.Metadata.Namespace)
		}
		body, err := yaml.YAMLToJSON(document)
		require.NoError(w.t, err)
		require.NoError(w.t, w.kube.Do(w.t.Context(), http.MethodPost, at, json.RawMessage(body), nil))
		w.t.Cleanup(func() {
			require.NoError(w.t, w.kube.Do(context.Background(), http.MethodDelete, at+"/"+object.Metadata.Name, nil, nil))
		})
	}
}

// token returns a token of an account, as a kubelet asks for it.
func (w *world) token(namespace, account string) string {
	w.t.Helper()
	at := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", namespace, account)
	body := json.RawMessage(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)
	var request struct{ Status struct{ Token string } }
	require.NoError(w.t, w.kube.Do(w.t.Context(), http.MethodPost, at, body, &request))
	require.NotEmpty(w.t, request.Status.Token)
	return request.Status.Token
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}
