// Package access lets other machines see pages of the debug endpoint when the
// API server knows who asks and that they may, as kube-rbac-proxy does for
// others. What it cannot find out counts as no.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
)

const (
	// Answers of the API server are used again for so long. A right that is
	// taken away ends, and one that is given begins, that much later.
	keepYes = time.Minute
	keepNo  = 10 * time.Second
	// What was a yes is asked again for so long whatever else comes from that
	// address.
	keepLately = time.Hour
	// most is how many answers of a kind are kept.
	most = 512

	// deadline is for both reviews of a request together.
	deadline = 5 * time.Second
	// atOnce is how many requests may be asking the API server, atOnceOfOne how many
	// of one client.
	atOnce      = 16
	atOnceOfOne = 4
	retryAfter  = "5" // seconds
)

// Reviewer asks the API server. An error says that there is no answer.
type Reviewer interface {
	// ClientCAs returns, as PEM, the authorities whose client certificates the API
	// server takes. The error of who may not read them is one of IsForbidden.
	ClientCAs(ctx context.Context) ([]byte, error)
	// Authenticate returns whose token it is; false is nobody's.
	Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error)
	// Authorize reports whether a user may get a path.
	Authorize(ctx context.Context, user authenticationv1.UserInfo, path string) (bool, error)
}

// Guard keeps pages. It keeps no token: answers are found by a hash. It is safe
// for concurrent use.
type Guard struct {
	reviewer  Reviewer
	logger    klog.Logger
	asking    *asking
	tries     *tries
	authority *authority
	failing   atomic.Bool // the last review had no answer

	// Apart, so that who tries tokens, certificates or paths pushes nobody else out.
	users, strangers *cache.LRUExpireCache // identities, by hash of the credential
	lately           *cache.LRUExpireCache // what was a yes: by verdictKey, of a credential without a path
	allowed, refused *cache.LRUExpireCache // by verdictKey
}

type verdictKey struct {
	credential [sha256.Size]byte
	path       string
}

// request is what is asked about.
type request struct {
	verdictKey
	client netip.Prefix
}

// New returns a Guard that asks reviewer. It logs each new verdict on a user,
// and once when the API server begins to be silent and when it ends.
func New(reviewer Reviewer, logger klog.Logger) *Guard {
	return &Guard{
		reviewer: reviewer, logger: logger, asking: newAsking(), tries: newTries(), authority: newAuthority(reviewer.ClientCAs, logger),
		users: cache.NewLRUExpireCache(most), strangers: cache.NewLRUExpireCache(most), lately: cache.NewLRUExpireCache(most),
		allowed: cache.NewLRUExpireCache(most), refused: cache.NewLRUExpireCache(most),
	}
}

var (
	// errBusy: too many requests are asking already.
	errBusy = errors.New("too many requests ask at the same time")
	// errTries: too much that its address asked came to nothing.
	errTries = errors.New("too many tries")
)

// Page shows a page to those whose bearer token or client certificate is of a
// user that may get its path, a nonResourceURL of RBAC. It answers 401 to the
// others without either, 403 to other users, 503 while the API server does not
// tell, and 429 to an address from which too much came that was answered so.
func (g *Guard) Page(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), deadline)
		defer cancel()
		who, asked, err := g.who(ctx, r)
		may := false
		if err == nil && who.stranger == "" {
			may, err = g.may(ctx, asked, who.user)
		}
		switch {
		case errors.Is(err, errTries):
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "too many requests from your address were refused; wait", http.StatusTooManyRequests)
		case err != nil:
			g.silent(r.Context(), err)
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "whether you may see this page could not be asked of the API server; try again", http.StatusServiceUnavailable)
		case who.stranger != "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, who.stranger, http.StatusUnauthorized)
		case !may:
			http.Error(w, fmt.Sprintf("%s may not get %s; a ClusterRole with this nonResourceURL allows it", who.user.Username, r.URL.Path), http.StatusForbidden)
		default:
			page.ServeHTTP(w, r)
		}
	})
}

// identity is whose a credential is.
type identity struct {
	user     authenticationv1.UserInfo
	stranger string    // why it is nobody's and what to do; "" says that it is the user's
	until    time.Time // when it ends; zero is not known
}

// who returns who asks, and what is asked about.
func (g *Guard) who(ctx context.Context, r *http.Request) (identity, request, error) {
	asked := request{verdictKey{path: r.URL.Path}, clientOf(r.RemoteAddr)}
	shown, no, err := g.credential(ctx, asked.client, r)
	if err != nil || no != "" {
		return identity{stranger: no}, asked, err
	}
	asked.credential = shown.key
	who, err := g.user(ctx, asked, shown)
	return who, asked, err
}

// user returns whose a credential is.
func (g *Guard) user(ctx context.Context, asked request, shown credential) (identity, error) {
	for _, answers := range []*cache.LRUExpireCache{g.users, g.strangers} {
		if kept, ok := answers.Get(asked.credential); ok {
			return kept.(identity), nil
		}
	}
	var who identity
	err := g.ask(asked.client, verdictKey{credential: asked.credential}, func() (_ bool, err error) {
		who, err = shown.whose(ctx)
		return who.stranger == "", err
	})
	switch {
	case err != nil:
		return identity{}, fmt.Errorf("whose the credential is: %w", err)
	case who.stranger != "":
		g.strangers.Add(asked.credential, who, keepNo)
	case who.until.IsZero():
		g.users.Add(asked.credential, who, keepYes)
	default:
		g.users.Add(asked.credential, who, min(keepYes, time.Until(who.until)))
	}
	return who, nil
}

// may reports whether a user may see a path.
func (g *Guard) may(ctx context.Context, asked request, user authenticationv1.UserInfo) (bool, error) {
	if _, ok := g.allowed.Get(asked.verdictKey); ok {
		return true, nil
	}
	if _, ok := g.refused.Get(asked.verdictKey); ok {
		return false, nil
	}
	var may bool
	err := g.ask(asked.client, asked.verdictKey, func() (_ bool, err error) {
		may, err = g.reviewer.Authorize(ctx, user, asked.path)
		return may, err
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("whether %s may get %s: %w", user.Username, asked.path, err)
	case may:
		g.allowed.Add(asked.verdictKey, true, keepYes)
	default:
		g.refused.Add(asked.verdictKey, true, keepNo)
	}
	g.logger.Info("somebody asks for a debug page", "user", user.Username, "path", asked.path, "allowed", may)
	return may, nil
}

// ask runs one review about key, if there is a place for it. It costs the client
// a try, unless it comes to a yes or did so lately.
func (g *Guard) ask(client netip.Prefix, key verdictKey, review func() (yes bool, err error)) error {
	leave, ok := g.asking.enter(client)
	if !ok {
		return errBusy
	}
	defer leave()
	_, free := g.lately.Get(key)
	if !free && !g.tries.take(client) {
		return errTries
	}
	yes, err := review()
	if yes && !free {
		g.tries.back(client)
	}
	if yes {
		g.lately.Add(key, true, keepLately)
	} else if err == nil {
		g.lately.Remove(key)
	}
	if err == nil && g.failing.CompareAndSwap(true, false) {
		g.logger.Info("the API server says again who may see debug pages")
	}
	return err
}

// silent logs that the API server gave no answer, unless that was said, also by
// the authority, or is because the client has gone.
func (g *Guard) silent(client context.Context, err error) {
	if client.Err() == nil && !errors.Is(err, errBusy) && !errors.Is(err, errAuthority) && g.failing.CompareAndSwap(false, true) {
		g.logger.Error(err, "the API server does not say who may see debug pages")
	}
}
