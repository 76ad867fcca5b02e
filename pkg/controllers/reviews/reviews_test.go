package reviews

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// serve returns a Reviewer of a server that answers by change, and keeps what
// it was asked in asked.
func serve(t *testing.T, change func(asked any) int) *Reviewer {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, authenticationv1.AddToScheme(scheme))
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	paths := map[string]string{
		"TokenReview":         "/apis/authentication.k8s.io/v1/tokenreviews",
		"SubjectAccessReview": "/apis/authorization.k8s.io/v1/subjectaccessreviews",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		review, kind, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, nil)
		if err != nil || paths[kind.Kind] != r.URL.Path {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		code := change(review)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if code != http.StatusCreated {
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			})
			return
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	r, err := New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return r
}

var ann = authenticationv1.UserInfo{
	Username: "ann", UID: "u1", Groups: []string{"g1", "g2"},
	Extra: map[string]authenticationv1.ExtraValue{"k": {"v1", "v2"}},
}

func TestAuthenticate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status authenticationv1.TokenReviewStatus
		known  bool
	}{
		{"somebody", authenticationv1.TokenReviewStatus{Authenticated: true, User: ann}, true},
		{"nobody", authenticationv1.TokenReviewStatus{User: ann, Error: "expired"}, false},
		{"somebody without a name", authenticationv1.TokenReviewStatus{Authenticated: true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := serve(t, func(asked any) int {
				review := asked.(*authenticationv1.TokenReview)
				if diff := cmp.Diff(authenticationv1.TokenReviewSpec{Token: "t0k3n"}, review.Spec); diff != "" {
					t.Error(diff)
				}
				review.Status = tc.status
				return http.StatusCreated
			})
			user, known, err := r.Authenticate(t.Context(), "t0k3n")
			require.NoError(t, err)
			require.Equal(t, tc.known, known)
			if known {
				require.Empty(t, cmp.Diff(ann, user))
			}
		})
	}
}

func TestAuthorize(t *testing.T) {
	for _, status := range []authorizationv1.SubjectAccessReviewStatus{{Allowed: true}, {Denied: true}, {EvaluationError: "no such role"}} {
		r := serve(t, func(asked any) int {
			review := asked.(*authorizationv1.SubjectAccessReview)
			if diff := cmp.Diff(authorizationv1.SubjectAccessReviewSpec{
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/dump", Verb: "get"},
				User:                  "ann", UID: "u1", Groups: []string{"g1", "g2"},
				Extra: map[string]authorizationv1.ExtraValue{"k": {"v1", "v2"}},
			}, review.Spec); diff != "" {
				t.Error(diff)
			}
			review.Status = status
			return http.StatusCreated
		})
		may, err := r.Authorize(t.Context(), ann, "/dump")
		require.NoError(t, err)
		require.Equal(t, status.Allowed, may)
	}
}

// Without the right to ask there is no answer, which is not the answer no.
func TestNotAllowedToAsk(t *testing.T) {
	r := serve(t, func(any) int { return http.StatusForbidden })
	_, _, err := r.Authenticate(t.Context(), "t0k3n")
	require.True(t, apierrors.IsForbidden(err), err)
	require.NotContains(t, err.Error(), "t0k3n")
	_, err = r.Authorize(t.Context(), ann, "/dump")
	require.True(t, apierrors.IsForbidden(err), err)
}

// The authorities are what an API server says to servers beside it, and none when it
// says nothing.
func TestClientCAs(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"said", `{"kind":"ConfigMap","apiVersion":"v1","data":{"client-ca-file":"PEM","requestheader-client-ca-file":"no"}}`, http.StatusOK, "PEM"},
		{"not said", `{"kind":"ConfigMap","apiVersion":"v1","data":{"requestheader-client-ca-file":"no"}}`, http.StatusOK, ""},
		{"none", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := cas(t, tc.code, tc.body)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(text))
		})
	}
	_, err := cas(t, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	require.True(t, apierrors.IsForbidden(err), err)
	require.ErrorContains(t, err, "ConfigMap kube-system/extension-apiserver-authentication: ")
}

// cas asks a server that answers so.
func cas(t *testing.T, code int, body string) ([]byte, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.String() != "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication" {
			t.Errorf("it asked %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	r, err := New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	defer r.core.Client.CloseIdleConnections()
	return r.ClientCAs(t.Context())
}
