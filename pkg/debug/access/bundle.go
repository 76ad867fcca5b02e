package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// mostSent bounds the certificates of a client: the work of looking for a chain
// grows with them.
const mostSent = 10

// The groups and the user that the API server gives to who shows nothing, and to
// all others.
const (
	anonymous       = "system:anonymous"
	unauthenticated = "system:unauthenticated"
	authenticated   = "system:authenticated"
)

// bundle is the authorities whose client certificates count.
type bundle struct {
	roots *x509.CertPool // never nil: that would be those of the machine
	sum   [sha256.Size]byte
	empty bool
}

// newBundle reads PEM. What it cannot read makes all of it an error: authorities
// that somebody left out would be taken for those that are no more.
func newBundle(text []byte) (*bundle, error) {
	b := &bundle{roots: x509.NewCertPool(), sum: sha256.Sum256(text), empty: true}
	rest := text
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("client CA: %w", err)
		}
		b.roots.AddCert(authority)
		b.empty = false
	}
	if b.empty && len(bytes.TrimSpace(text)) > 0 {
		return nil, errors.New("client CA: no PEM certificate in it")
	}
	return b, nil
}

// whose returns who the API server would say has a certificate, the first of
// sent; the others may lead to an authority. It holds now only.
func (b *bundle) whose(sent []*x509.Certificate) identity {
	if len(sent) > mostSent {
		return refused(fmt.Sprintf("more than %d certificates were sent", mostSent))
	}
	leaf, between := sent[0], x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: b.roots, Intermediates: between, CurrentTime: time.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return refused(why(err))
	case leaf.Subject.CommonName == "":
		return refused("it names no user (CommonName)")
	}
	user := authenticationv1.UserInfo{Username: leaf.Subject.CommonName, Groups: slices.Clone(leaf.Subject.Organization)}
	if user.Username != anonymous && !slices.Contains(user.Groups, unauthenticated) && !slices.Contains(user.Groups, authenticated) {
		user.Groups = append(user.Groups, authenticated)
	}
	return identity{user: user, until: end(chains)}
}

// refused is nobody. It says nothing that the certificate says.
func refused(why string) identity {
	return identity{stranger: "the client certificate counts for nothing: " + why + "; show another one, or send a bearer token (Authorization: Bearer TOKEN)"}
}

// why says in words of our own why a certificate counts for nothing.
func why(err error) string {
	invalid := x509.CertificateInvalidError{}
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "it is not of an authority for clients of this cluster"
	case !errors.As(err, &invalid):
	case invalid.Reason == x509.Expired:
		return "it, or one that leads to its authority, has expired or is not valid yet"
	case invalid.Reason == x509.IncompatibleUsage:
		return "it is not for clients (key usage clientAuth)"
	}
	return "it cannot be verified"
}

// end returns when the last of chains ends: at the end of its first certificate.
func end(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if first.NotAfter.After(last) {
			last = first.NotAfter
		}
	}
	return last
}
