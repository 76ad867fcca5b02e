package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// renderExposed returns the objects that an overlay of a user's has more with
// the component deploy/exposed.
func renderExposed(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	deploy, err := filepath.Abs("../../deploy")
	require.NoError(t, err)
	folder := t.TempDir()
	deploy, err = filepath.Rel(folder, deploy)
	require.NoError(t, err)
	text := fmt.Sprintf("resources: [%q]\ncomponents: [%q]\n", deploy, filepath.Join(deploy, "exposed"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	plain := render(t, overlays["azure"])
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	require.NoError(t, err)
	var more []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		text, err := resource.MarshalJSON()
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON(text))
		if before, ok := plain[object.GetKind()]; !ok || before.GetName() != object.GetName() {
			more = append(more, object)
		}
	}
	return more
}

// exposed is the HTTPS endpoint of an agent, under the key that it says it has.
type exposed struct {
	t      *testing.T
	url    string
	client *http.Client
}

var exposedAt = regexp.MustCompile(`exposed at (https://\S+) (sha256//\S+)`)

func startExposed(t *testing.T, node string) (*proxy, *buffer, exposed) {
	t.Helper()
	p, said := startTeller(t, node, "--expose", "127.0.0.1:0")
	var found []string
	eventually(t, settle, func() string {
		if found = exposedAt.FindStringSubmatch(said.String()); found == nil {
			return "the agent does not say where it serves"
		}
		return ""
	})
	// Each request comes from an address of its own: one has few tries.
	var clients atomic.Uint32
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		n := clients.Add(1)
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}
		return from.DialContext(ctx, network, addr)
	}, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // the pin is checked
		VerifyConnection: func(c tls.ConnectionState) error {
			sum := sha256.Sum256(c.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if "sha256//"+base64.StdEncoding.EncodeToString(sum[:]) != found[2] {
				return errors.New("another key")
			}
			return nil
		},
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return p, said, exposed{t, found[1], &http.Client{Transport: transport}}
}

// get returns what a page answers to a token.
func (e exposed) get(path, token string) (int, string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), settle)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	require.NoError(e.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := e.client.Do(request)
	require.NoError(e.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
	return response.StatusCode, string(body)
}

// becomes waits until a page answers a token so.
func (e exposed) becomes(path, token string, want int) {
	e.t.Helper()
	eventually(e.t, settle, func() string {
		if code, body := e.get(path, token); code != want {
			return fmt.Sprintf("%s: %d: %s", path, code, body)
		}
		return ""
	})
}

// account creates a ServiceAccount, bound to ClusterRoles, and returns what makes
// tokens of it.
func (w *world) account(namespace, name string, roles ...string) (token func(audiences ...string) string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().ServiceAccounts(namespace).Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	for _, role := range roles {
		w.bound(namespace+"-"+name+"-"+role, role, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
	}
	return func(audiences ...string) string {
		w.t.Helper()
		request, err := w.kube.CoreV1().ServiceAccounts(namespace).CreateToken(w.t.Context(), name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
		require.NoError(w.t, err)
		return request.Status.Token
	}
}

// bound gives somebody a ClusterRole everywhere.
func (w *world) bound(name, role string, who rbacv1.Subject) {
	w.t.Helper()
	bindings := w.kube.RbacV1().ClusterRoleBindings()
	_, err := bindings.Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{who},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, bindings.Delete(context.Background(), name, metav1.DeleteOptions{})) })
}

// Other machines see pages by the API server's word, and none without it.
func TestExposedPages(t *testing.T) {
	const dump, heap = "/npm/v1/debug/manager", "/debug/pprof/heap?debug=1"
	w := newWorld(t)
	w.node("exposed", "192.168.6.1")
	w.namespace("watching", "")
	reader := w.account("watching", "reader", "winnpm-debug-reader")
	profiler := w.account("watching", "profiler", "winnpm-debug-profiler")
	stranger := w.account("watching", "stranger")
	p, said, agent := startExposed(t, "exposed")

	t.Log("deploy/ alone does not let the agent ask")
	code, body := agent.get(dump, reader())
	require.Equal(t, http.StatusServiceUnavailable, code, body)
	eventually(t, settle, func() string {
		if !strings.Contains(said.String(), "forbidden") {
			return "the agent does not say why"
		}
		return ""
	})

	more := renderExposed(t)
	var names []string
	for _, object := range more {
		applied(t, object)
		names = append(names, object.GetKind()+" "+object.GetName())
	}
	require.ElementsMatch(t, []string{
		"ClusterRoleBinding winnpm-auth-delegator", "RoleBinding winnpm-client-ca-reader", "ClusterRole winnpm-debug-reader", "ClusterRole winnpm-debug-profiler",
	}, names)

	t.Log("who may what")
	read := reader()
	agent.becomes(dump, read, http.StatusOK)
	_, body = agent.get(dump, read)
	require.Contains(t, body, `"NodeName":"exposed"`)
	code, body = agent.get(heap, read)
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "system:serviceaccount:watching:reader may not get /debug/pprof/heap")
	agent.becomes(heap, profiler(), http.StatusOK)
	for _, c := range []struct {
		who, token string
		code       int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"a token that is none", "no-token", http.StatusUnauthorized},
		{"a token for another server", reader("somebody.example"), http.StatusUnauthorized},
		{"a token that was changed", read[:len(read)-4] + "AAAA", http.StatusUnauthorized},
		{"somebody without the role", stranger(), http.StatusForbidden},
		{"somebody with the other role", profiler(), http.StatusForbidden},
		{"the agent itself", agentToken(t), http.StatusForbidden},
	} {
		code, body := agent.get(dump, c.token)
		require.Equal(t, c.code, code, "%s: %s", c.who, body)
	}

	t.Log("without the API server nobody new is let in")
	fresh := reader()
	p.cut()
	agent.becomes(dump, fresh, http.StatusServiceUnavailable)
	agent.becomes(dump, stranger(), http.StatusServiceUnavailable)
	p.mend()
	agent.becomes(dump, fresh, http.StatusOK)

	for _, token := range []string{read, fresh} {
		require.NotContains(t, said.String(), token)
	}
}

// agentToken is a token of the ServiceAccount in deploy/.
func agentToken(t *testing.T) string {
	t.Helper()
	request, err := kube.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), agentAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return request.Status.Token
}
