// Package reviews asks an API server who somebody is and what they may do.
package reviews

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/controllers"
)

// Reviewer asks with TokenReviews and SubjectAccessReviews, which it may have
// to be allowed to create: the ClusterRole system:auth-delegator is for that. It
// is safe for concurrent use. Errors are those of client-go's REST client.
type Reviewer struct{ authentication, authorization, core *rest.RESTClient }

// Where an API server says which client certificates it takes, for servers beside it.
// The Role extension-apiserver-authentication-reader of the namespace may read it.
const (
	clientCAName = "extension-apiserver-authentication"
	clientCAKey  = "client-ca-file"
)

// New returns a Reviewer. It does not talk to the server yet.
func New(cfg *rest.Config) (*Reviewer, error) {
	authentication, err := controllers.Client(cfg, authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	authorization, err := controllers.Client(cfg, authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	core, err := controllers.Client(cfg, corev1.SchemeGroupVersion, corev1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Reviewer{authentication, authorization, core}, nil
}

// ClientCAs returns the authorities whose client certificates the API server
// takes, as PEM; it is empty when it takes none.
func (r *Reviewer) ClientCAs(ctx context.Context) ([]byte, error) {
	said := &corev1.ConfigMap{}
	err := r.core.Get().Namespace(metav1.NamespaceSystem).Resource("configmaps").Name(clientCAName).Do(ctx).Into(said)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", metav1.NamespaceSystem, clientCAName, err)
	}
	return []byte(said.Data[clientCAKey]), nil
}

// Authenticate returns whose token it is; false is nobody's. The token must be
// for the API server itself.
func (r *Reviewer) Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answer := &authenticationv1.TokenReview{}
	if err := r.authentication.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(answer); err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("TokenReview: %w", err)
	}
	if !answer.Status.Authenticated || answer.Status.User.Username == "" {
		return authenticationv1.UserInfo{}, false, nil
	}
	return answer.Status.User, true, nil
}

// Authorize reports whether a user may get a path that is no resource.
func (r *Reviewer) Authorize(ctx context.Context, user authenticationv1.UserInfo, path string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		User:                  user.Username, UID: user.UID, Groups: user.Groups,
	}}
	if len(user.Extra) > 0 {
		review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		for name, values := range user.Extra {
			review.Spec.Extra[name] = authorizationv1.ExtraValue(values)
		}
	}
	answer := &authorizationv1.SubjectAccessReview{}
	if err := r.authorization.Post().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(answer); err != nil {
		return false, fmt.Errorf("SubjectAccessReview: %w", err)
	}
	return answer.Status.Allowed, nil
}
