package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// rightsFile is what a user applies.
const rightsFile = "../../deploy/base/rbac.yaml"

// agentAccount is the ServiceAccount in it, of kube-system.
const agentAccount = "winnpm"

// installRights applies deploy/base/rbac.yaml.
func installRights(ctx context.Context, kube kubernetes.Interface) error {
	text, err := os.ReadFile(rightsFile)
	if err != nil {
		return err
	}
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	decoder := scheme.Codecs.UniversalDeserializer()
	buf := make([]byte, len(text)+1)
	for {
		n, err := documents.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		object, _, err := decoder.Decode(buf[:n], nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", rightsFile, err)
		}
		if err := create(ctx, kube, object); err != nil {
			return fmt.Errorf("%s: %w", rightsFile, err)
		}
	}
}

// create creates one object of the kinds in deploy/base/rbac.yaml.
func create(ctx context.Context, kube kubernetes.Interface, object runtime.Object) (err error) {
	switch o := object.(type) {
	case *corev1.ServiceAccount:
		_, err = kube.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *rbacv1.ClusterRole:
		_, err = kube.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
	case *rbacv1.ClusterRoleBinding:
		_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("a %T is not a right", o)
	}
	return err
}

// account creates a ServiceAccount.
func (w *world) account(namespace, name string) rbacv1.Subject {
	w.t.Helper()
	_, err := w.kube.CoreV1().ServiceAccounts(namespace).Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// kubeconfigOf writes a kubeconfig with a fresh token of a ServiceAccount for
// the server at url, which shows a certificate of ca.
func kubeconfigOf(t *testing.T, namespace, account, url string, ca []byte) string {
	t.Helper()
	seconds := int64(3600)
	request, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
 contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
 users: [{name: u, user: {token: %s}}]}
`, url, base64.StdEncoding.EncodeToString(ca), request.Status.Token)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// agentKubeconfig is the kubeconfig of the ServiceAccount in deploy/.
func agentKubeconfig(t *testing.T) string {
	return kubeconfigOf(t, "kube-system", agentAccount, admin.Host, admin.CAData)
}

// The ServiceAccount may read what the agent needs and create Events, nothing
// else.
func TestRightsAreExact(t *testing.T) {
	token, err := kube.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), agentAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.False(t, review.Status.Incomplete)
	var got []string
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					got = append(got, fmt.Sprintf("%s %s.%s", verb, resource, group))
				}
			}
		}
	}
	slices.Sort(got)
	want := []string{
		// Everyone may ask who they are and what they may do.
		"create selfsubjectaccessreviews.authorization.k8s.io",
		"create selfsubjectreviews.authentication.k8s.io",
		"create selfsubjectrulesreviews.authorization.k8s.io",
	}
	for _, resource := range []string{"pods.", "nodes.", "namespaces.", "networkpolicies.networking.k8s.io", "clusternetworkpolicies.policy.networking.k8s.io"} {
		for _, verb := range []string{"list", "watch"} {
			want = append(want, verb+" "+resource)
		}
	}
	want = append(want, "create events.events.k8s.io")
	slices.Sort(want)
	require.Equal(t, want, got)
}
