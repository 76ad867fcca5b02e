package access

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

const home = "192.0.2.1"

var errForbidden = fmt.Errorf("ConfigMap: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", errors.New("no role")))

// A certificate counts when the cluster's authority for clients signed it, for
// clients, now, and names a user; RBAC decides then. Whatever is not known is no.
func TestWhoSeesAPageByCertificate(t *testing.T) {
	ca, other := newAuthorityOf(t, nil, "ca"), newAuthorityOf(t, nil, "ca")
	between := newAuthorityOf(t, ca, "between")
	usage := func(usages ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
	}
	named := func(name pkix.Name) func(*x509.Certificate) { return func(c *x509.Certificate) { c.Subject = name } }
	ann := ca.client("ann")
	many := append([]*x509.Certificate{between.client("ann"), between.own}, make([]*x509.Certificate, mostSent)...)
	for i := 2; i < len(many); i++ {
		many[i] = other.own
	}
	const asksFirst, mayAnn = "who vouches", "may ann of [g system:authenticated] get /dump"
	for _, tc := range []struct {
		name          string
		sent          []*x509.Certificate
		authorization []string
		cas           []byte
		noCAs         error
		code          int
		body          string
		asked         []string
	}{
		{name: "may", sent: []*x509.Certificate{ann}, code: 200, body: "the page", asked: []string{asksFirst, mayAnn}},
		{name: "one of two authorities", sent: []*x509.Certificate{ann}, cas: append(other.pem(), ca.pem()...), code: 200, body: "the page", asked: []string{asksFirst, mayAnn}},
		{name: "by way of another", sent: []*x509.Certificate{between.client("ann"), between.own}, code: 200, body: "the page", asked: []string{asksFirst, mayAnn}},
		{name: "of any usage", sent: []*x509.Certificate{ca.client("ann", usage(x509.ExtKeyUsageAny))}, code: 200, body: "the page", asked: []string{asksFirst, mayAnn}},
		{name: "groups of the system", sent: []*x509.Certificate{ca.client("ann", named(pkix.Name{CommonName: "ann", Organization: []string{"system:masters"}}))}, code: 200, body: "the page", asked: []string{asksFirst, "may ann of [system:masters system:authenticated] get /dump"}},
		{name: "who is not authenticated", sent: []*x509.Certificate{ca.client("", named(pkix.Name{CommonName: anonymous, Organization: []string{unauthenticated}}))}, code: 403, body: "system:anonymous may not get /dump", asked: []string{asksFirst, "may system:anonymous of [system:unauthenticated] get /dump"}},
		{name: "another user", sent: []*x509.Certificate{ca.client("bob")}, code: 403, body: "bob may not get /dump; a ClusterRole with this nonResourceURL allows it", asked: []string{asksFirst, "may bob of [g system:authenticated] get /dump"}},

		{name: "another authority of the same name", sent: []*x509.Certificate{other.client("ann")}, code: 401, body: "not of an authority for clients of this cluster", asked: []string{asksFirst}},
		{name: "the other's beside its own", sent: []*x509.Certificate{other.client("ann"), other.own}, code: 401, body: "not of an authority for clients of this cluster", asked: []string{asksFirst}},
		{name: "the right one is second", sent: []*x509.Certificate{other.client("ann"), ann}, code: 401, body: "not of an authority for clients of this cluster", asked: []string{asksFirst}},
		{name: "what is between is missing", sent: []*x509.Certificate{between.client("ann")}, code: 401, body: "not of an authority for clients of this cluster", asked: []string{asksFirst}},
		{name: "too many", sent: many, code: 401, body: "more than 10 certificates were sent", asked: []string{asksFirst}},
		{name: "expired", sent: []*x509.Certificate{ca.client("ann", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}, code: 401, body: "has expired or is not valid yet", asked: []string{asksFirst}},
		{name: "not yet", sent: []*x509.Certificate{ca.client("ann", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })}, code: 401, body: "has expired or is not valid yet", asked: []string{asksFirst}},
		{name: "a server's", sent: []*x509.Certificate{ca.client("ann", usage(x509.ExtKeyUsageServerAuth))}, code: 401, body: "not for clients (key usage clientAuth)", asked: []string{asksFirst}},
		{name: "nobody's", sent: []*x509.Certificate{ca.client("")}, code: 401, body: "it names no user (CommonName)", asked: []string{asksFirst}},

		{name: "no authority", sent: []*x509.Certificate{ann}, cas: []byte("\n"), code: 401, body: "takes no client certificates; send a bearer token", asked: []string{asksFirst}},
		{name: "the agent may not read", sent: []*x509.Certificate{ann}, noCAs: errForbidden, code: 401, body: "the agent may not read which client certificates this cluster takes, as deploy/exposed is not applied", asked: []string{asksFirst}},
		{name: "no answer", sent: []*x509.Certificate{ann}, noCAs: errors.New("refused"), code: 503, body: "could not be asked of the API server", asked: []string{asksFirst}},
		{name: "no PEM", sent: []*x509.Certificate{ann}, cas: []byte("nonsense"), code: 503, body: "could not be asked of the API server", asked: []string{asksFirst}},
		{name: "half of it cannot be read", sent: []*x509.Certificate{ann}, cas: append(ca.pem(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...), code: 503, body: "could not be asked of the API server", asked: []string{asksFirst}},

		{name: "a token beside it", sent: []*x509.Certificate{other.client("ann")}, authorization: []string{"Bearer t-ann"}, code: 200, body: "the page", asked: []string{"who has t-ann", "may ann of [g] get /dump"}},
		{name: "another's token beside it", sent: []*x509.Certificate{ann}, authorization: []string{"Bearer t-bob"}, code: 403, body: "bob may not get /dump", asked: []string{"who has t-bob", "may bob of [g] get /dump"}},
		{name: "nobody's token beside it", sent: []*x509.Certificate{ann}, authorization: []string{"Bearer t-eve"}, code: 401, body: sayToken, asked: []string{"who has t-eve"}},
		{name: "a password beside it", sent: []*x509.Certificate{ann}, authorization: []string{"Basic t-ann"}, code: 401, body: sayNothing},
		{name: "nothing", code: 401, body: sayNothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := newServer()
			api.cas, api.noCAs = tc.cas, tc.noCAs
			if tc.cas == nil {
				api.cas = ca.pem()
			}
			rec := both(t, New(api, klog.Logger{}).Page(page), home, "/dump", tc.authorization, tc.sent...)
			require.Equal(t, tc.code, rec.Code, rec.Body)
			require.Contains(t, rec.Body.String(), tc.body)
			require.Equal(t, tc.asked, api.taken())
		})
	}
}

// What was known of a certificate ends with it, and with its authority.
func TestCertificatesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, next := newAuthorityOf(t, nil, "ca"), newAuthorityOf(t, nil, "ca")
		between := ca.made(t, x509.Certificate{
			Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
			NotAfter: time.Now().Add(20 * time.Second),
		})
		api := newServer()
		api.cas = ca.pem()
		h := New(api, klog.Logger{}).Page(page)
		brief := ca.client("ann", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(10 * time.Second) })
		require.Equal(t, 401, shown(t, h, home, "/dump", next.client("ann")).Code)
		long, chained := ca.client("ann"), between.client("ann")
		for range 100 {
			require.Equal(t, 200, shown(t, h, home, "/dump", brief).Code)
			require.Equal(t, 200, shown(t, h, home, "/dump", long).Code)
			require.Equal(t, 200, shown(t, h, home, "/dump", chained, between.own).Code)
		}
		time.Sleep(11 * time.Second)
		require.Equal(t, 401, shown(t, h, home, "/dump", brief).Code)
		require.Equal(t, 200, shown(t, h, home, "/dump", chained, between.own).Code)
		time.Sleep(10 * time.Second)
		require.Equal(t, 401, shown(t, h, home, "/dump", chained, between.own).Code, "what led to its authority has expired")
		require.Equal(t, 200, shown(t, h, home, "/dump", long).Code)

		api.cas = next.pem()
		time.Sleep(readEvery - 22*time.Second)
		late := ca.client("ann")
		require.Equal(t, 200, shown(t, h, home, "/dump", late).Code, "not read yet")
		time.Sleep(2 * time.Second)
		require.Equal(t, 401, shown(t, h, home, "/dump", late).Code)
		require.Equal(t, 200, shown(t, h, home, "/dump", next.client("ann")).Code)
	})
}

// The authorities are read once a minute at most, whatever comes, and no longer
// count when they could not be read for ten.
func TestAuthoritiesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		ca := newAuthorityOf(t, nil, "ca")
		ann := ca.client("ann")
		api := newServer()
		api.noCAs = errForbidden
		h := New(api, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))).Page(page)
		reads := func() (n int) {
			for _, asked := range api.taken() {
				if asked == "who vouches" {
					n++
				}
			}
			return n
		}
		for range 600 {
			require.Equal(t, 401, shown(t, h, home, "/dump", ann).Code)
			require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code, "tokens need no authority")
			time.Sleep(time.Second)
		}
		require.Equal(t, 10, reads())
		require.Equal(t, 1, strings.Count(log.String(), "the client CA of the cluster cannot be read"), log.String())

		api.cas, api.noCAs = ca.pem(), nil
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		require.Equal(t, 1, strings.Count(log.String(), "the client CA of the cluster can be read again"), log.String())
		for range 600 {
			require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
			time.Sleep(time.Second)
		}
		require.Equal(t, 10, reads())

		api.noCAs = errors.New("refused") // and reviews are answered
		read := time.Now()
		for time.Since(read) < keepAuthority-readEvery {
			require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
			time.Sleep(time.Second)
		}
		time.Sleep(readEvery)
		require.Equal(t, 503, shown(t, h, home, "/dump", ann).Code)
		require.LessOrEqual(t, reads(), 11)
		require.NotContains(t, log.String(), "who may see debug pages", "that was no review")
	})
}

// While the authorities are read, who is known waits for nobody, and few wait of
// those who are not.
func TestAuthoritiesAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthorityOf(t, nil, "ca")
		ann := ca.client("ann")
		api := newServer()
		api.cas, api.hang = ca.pem(), make(chan struct{})
		h := New(api, klog.Logger{}).Page(page)
		codes := make(chan int)
		for i := range 2 * atOnce {
			go func() { codes <- shown(t, h, fmt.Sprintf("10.0.0.%d", i), "/dump", ca.client("ann")).Code }()
		}
		synctest.Wait()
		require.Equal(t, []string{"who vouches"}, api.taken(), "one reads at a time")
		for range atOnce {
			require.Equal(t, 503, <-codes, "too many wait")
		}
		close(api.hang)
		for range atOnce {
			require.Equal(t, 200, <-codes)
		}

		time.Sleep(readEvery - 10*time.Second)
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		time.Sleep(10 * time.Second)
		api.hang = make(chan struct{})
		go func() { codes <- shown(t, h, "10.0.0.1", "/dump", ann).Code }()
		synctest.Wait()
		began := time.Now()
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		require.Zero(t, time.Since(began))
		require.Equal(t, 200, <-codes)
		require.Equal(t, readFor, time.Since(began))
	})
}

// Who is known is let in while as many ask as may, also when it is time to read.
func TestKnownWhileMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthorityOf(t, nil, "ca")
		ann := ca.client("ann")
		api := newServer()
		api.cas = ca.pem()
		h := New(api, klog.Logger{}).Page(page)
		require.Equal(t, 403, shown(t, h, home, "/dump", ca.client("bob")).Code)
		time.Sleep(readEvery - time.Second)
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		time.Sleep(time.Second)
		api.taken()
		api.hang = make(chan struct{})
		for i := range atOnce {
			go from(t, h, fmt.Sprintf("10.0.0.%d", i), "/dump", fmt.Sprintf("Bearer guess%d", i))
		}
		synctest.Wait()
		require.Len(t, api.taken(), atOnce)
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		require.Empty(t, api.taken())
		close(api.hang)
		synctest.Wait()
	})
}

// A client that goes away takes the authorities from nobody.
func TestReaderGoesAway(t *testing.T) {
	ca := newAuthorityOf(t, nil, "ca")
	api := newServer()
	api.cas = ca.pem()
	a := newAuthority(func(ctx context.Context) ([]byte, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return api.ClientCAs(ctx)
	}, klog.Logger{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	a.once(gone)
	known, err := a.renew(t.Context())
	require.NoError(t, err)
	require.False(t, known.empty)
}

// A flood of certificates that nobody signed costs what one of tokens does, and
// keeps out, or pushes out, nobody.
func TestFloodOfCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, other := newAuthorityOf(t, nil, "ca"), newAuthorityOf(t, nil, "ca")
		ann := ca.client("ann")
		api := newServer()
		api.cas = ca.pem()
		g := New(api, klog.Logger{})
		h := g.Page(page)
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		codes := map[int]int{}
		for range 100 {
			codes[shown(t, h, home, "/dump", other.client("ann")).Code]++
		}
		require.Equal(t, map[int]int{401: tryBurst, 429: 100 - tryBurst}, codes)
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		require.Equal(t, 200, shown(t, h, "192.0.2.2", "/dump", ca.client("ann")).Code)
		for i := range most + 100 { // from as many addresses
			require.Equal(t, 401, shown(t, h, fmt.Sprintf("10.0.%d.%d", i/256, i%256), "/dump", other.client("ann")).Code)
		}
		require.Len(t, g.strangers.Keys(), most)
		api.taken()
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code)
		require.Empty(t, api.taken())

		time.Sleep(keepYes + time.Second)
		for range 100 {
			shown(t, h, home, "/dump", other.client("ann"))
		}
		require.Equal(t, 200, shown(t, h, home, "/dump", ann).Code, "she was known lately")
	})
}
