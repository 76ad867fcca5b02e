package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The answers to those who show nothing that counts.
const (
	sayNothing   = "send a bearer token (Authorization: Bearer TOKEN) or a client certificate of this cluster"
	sayToken     = "the API server does not know the bearer token"
	sayForbidden = "the agent may not read which client certificates this cluster takes, as deploy/exposed is not applied " +
		"(ConfigMap kube-system/extension-apiserver-authentication); send a bearer token (Authorization: Bearer TOKEN)"
	sayNone = "the API server of this cluster takes no client certificates; send a bearer token (Authorization: Bearer TOKEN)"
)

// credential is what a request shows of who asks.
type credential struct {
	key   [sha256.Size]byte // of answers about it
	whose func(ctx context.Context) (identity, error)
}

// credential returns what a request shows, or why that is nothing. With a header
// Authorization only that counts, so that nobody is somebody else than they say.
func (g *Guard) credential(ctx context.Context, client netip.Prefix, r *http.Request) (_ credential, no string, _ error) {
	if len(r.Header.Values("Authorization")) > 0 {
		token, ok := bearer(r.Header)
		if !ok {
			return credential{}, sayNothing, nil
		}
		return g.token(token), "", nil
	}
	// Not the chains that TLS found: it looks for none, and a session that is
	// resumed would have those of its first day.
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return credential{}, sayNothing, nil
	}
	known, err := g.clientCAs(ctx, client)
	switch {
	case apierrors.IsForbidden(err):
		return credential{}, sayForbidden, nil
	case err != nil:
		return credential{}, "", err
	case known.empty:
		return credential{}, sayNone, nil
	}
	return certificate(known, r.TLS.PeerCertificates), "", nil
}

func (g *Guard) token(token string) credential {
	return credential{sha256.Sum256([]byte(token)), func(ctx context.Context) (identity, error) {
		user, known, err := g.reviewer.Authenticate(ctx, token)
		if err != nil || !known {
			return identity{stranger: sayToken}, err
		}
		return identity{user: user}, nil
	}}
}

// certificate is the credential of who proved to have the key of the first of
// sent. Other authorities make it another one: what was known of it is void.
func certificate(known *bundle, sent []*x509.Certificate) credential {
	// No token has a zero byte, as no header has.
	key := sha256.Sum256(slices.Concat([]byte("certificate\x00"), known.sum[:], sent[0].Raw))
	return credential{key, func(context.Context) (identity, error) { return known.whose(sent), nil }}
}

// bearer returns the token of a request that has exactly one.
func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && !strings.ContainsAny(token, " \t")
}
