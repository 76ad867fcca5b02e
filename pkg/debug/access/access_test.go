package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API server: who has a token, and what they may get.
type server struct {
	mu    sync.Mutex // guards following
	users map[string]string
	may   map[string]bool // "user path"
	cas   []byte
	noCAs error
	down  error
	hang  chan struct{} // not nil: no answer before it is closed or ctx ends
	asked []string
}

func (s *server) answer(ctx context.Context, question string) error {
	s.mu.Lock()
	s.asked = append(s.asked, question)
	down, hang := s.down, s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return down
}

func (s *server) ClientCAs(ctx context.Context) ([]byte, error) {
	if err := s.answer(ctx, "who vouches"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cas, s.noCAs
}

func (s *server) Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	if err := s.answer(ctx, "who has "+token); err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok := s.users[token]
	return authenticationv1.UserInfo{Username: name, UID: "u", Groups: []string{"g"}}, ok, nil
}

func (s *server) Authorize(ctx context.Context, user authenticationv1.UserInfo, path string) (bool, error) {
	if err := s.answer(ctx, fmt.Sprintf("may %s of %s get %s", user.Username, user.Groups, path)); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.may[user.Username+" "+path], nil
}

// taken returns what was asked since the last time.
func (s *server) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func newServer() *server {
	return &server{users: map[string]string{"t-ann": "ann", "t-bob": "bob"}, may: map[string]bool{"ann /dump": true}}
}

var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") })

func get(t *testing.T, h http.Handler, path string, authorization ...string) *httptest.ResponseRecorder {
	t.Helper()
	return from(t, h, "192.0.2.1", path, authorization...)
}

// from is get from an address.
func from(t *testing.T, h http.Handler, addr, path string, authorization ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr = net.JoinHostPort(addr, "1")
	r.Header["Authorization"] = authorization
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func TestWhoSeesAPage(t *testing.T) {
	for _, tc := range []struct {
		name          string
		authorization []string
		path          string
		down          error
		code          int
		body          string
		asked         []string
	}{
		{"may", []string{"Bearer t-ann"}, "/dump?a=b", nil, 200, "the page", []string{"who has t-ann", "may ann of [g] get /dump"}},
		{"scheme in another case", []string{"bearer  t-ann"}, "/dump", nil, 200, "the page", []string{"who has t-ann", "may ann of [g] get /dump"}},
		{"another page", []string{"Bearer t-ann"}, "/other", nil, 403, "ann may not get /other; a ClusterRole with this nonResourceURL allows it\n", []string{"who has t-ann", "may ann of [g] get /other"}},
		{"another user", []string{"Bearer t-bob"}, "/dump", nil, 403, "bob may not get /dump; a ClusterRole with this nonResourceURL allows it\n", []string{"who has t-bob", "may bob of [g] get /dump"}},
		{"nobody's token", []string{"Bearer t-eve"}, "/dump", nil, 401, "the API server does not know the bearer token\n", []string{"who has t-eve"}},
		{"no token", nil, "/dump", nil, 401, sayNothing + "\n", nil},
		{"an empty one", []string{"Bearer "}, "/dump", nil, 401, sayNothing + "\n", nil},
		{"a password", []string{"Basic t-ann"}, "/dump", nil, 401, sayNothing + "\n", nil},
		{"two words", []string{"Bearer t-ann t-ann"}, "/dump", nil, 401, sayNothing + "\n", nil},
		{"two headers", []string{"Bearer t-eve", "Bearer t-ann"}, "/dump", nil, 401, sayNothing + "\n", nil},
		{"in the URL", nil, "/dump?token=t-ann&access_token=t-ann", nil, 401, sayNothing + "\n", nil},
		{"no API server", []string{"Bearer t-ann"}, "/dump", errors.New("refused t-ann"), 503, "whether you may see this page could not be asked of the API server; try again\n", []string{"who has t-ann"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := newServer()
			api.down = tc.down
			rec := get(t, New(api, klog.Logger{}).Page(page), tc.path, tc.authorization...)
			require.Equal(t, tc.code, rec.Code)
			require.Equal(t, tc.body, rec.Body.String())
			require.Equal(t, tc.asked, api.taken())
			require.Equal(t, tc.code == 401, rec.Header().Get("WWW-Authenticate") == "Bearer")
			require.Equal(t, tc.code == 503, rec.Header().Get("Retry-After") == "5")
		})
	}
}

// Answers are used again for a while, each for its own page, and not for long.
func TestAnswersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		h := New(api, klog.Logger{}).Page(page)
		ask := func(code int, token, path string) {
			t.Helper()
			require.Equal(t, code, get(t, h, path, "Bearer "+token).Code)
		}
		for range 100 {
			ask(200, "t-ann", "/dump")
			ask(403, "t-ann", "/other")
			ask(401, "t-eve", "/dump")
		}
		require.Equal(t, []string{"who has t-ann", "may ann of [g] get /dump", "may ann of [g] get /other", "who has t-eve"}, api.taken())

		api.users = map[string]string{"t-eve": "ann"}
		api.may = map[string]bool{"ann /other": true}
		time.Sleep(keepNo + time.Second)
		ask(200, "t-eve", "/other")
		ask(200, "t-ann", "/other")
		ask(200, "t-ann", "/dump")
		require.Equal(t, []string{"who has t-eve", "may ann of [g] get /other", "may ann of [g] get /other"}, api.taken())

		time.Sleep(keepYes - keepNo)
		ask(401, "t-ann", "/dump") // the token was taken away
		require.Equal(t, []string{"who has t-ann"}, api.taken())
	})
}

// Who tries tokens pushes out nobody who may, and fills no memory.
func TestAnswersAreBounded(t *testing.T) {
	api := newServer()
	api.users["t-mob"] = "mob"
	g := New(api, klog.Logger{})
	h := g.Page(page)
	require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
	for i := range 5 * most { // from as many addresses
		addr := fmt.Sprintf("10.0.%d.%d", i/256, i%256)
		require.Equal(t, 401, from(t, h, addr, "/dump", fmt.Sprintf("Bearer guess%d", i)).Code)
		require.Equal(t, 403, from(t, h, addr, fmt.Sprintf("/p/%d", i), "Bearer t-mob").Code)
	}
	api.taken()
	require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
	require.Empty(t, api.taken())
	require.Len(t, g.strangers.Keys(), most)
	require.Len(t, g.refused.Keys(), most)
}

// An API server that is silent keeps everybody out, and nobody waiting; who was
// let in before stays for a while.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		api := newServer()
		h := New(api, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))).Page(page)
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		api.hang = make(chan struct{})
		began := time.Now()
		for range 2 {
			require.Equal(t, 503, get(t, h, "/dump", "Bearer t-bob").Code)
		}
		require.Equal(t, 2*deadline, time.Since(began))
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		require.Equal(t, 503, get(t, h, "/other", "Bearer t-ann").Code, "that she may was not asked before")
		time.Sleep(keepYes)
		require.Equal(t, 503, get(t, h, "/dump", "Bearer t-ann").Code)
		close(api.hang)
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code, "a silence is not kept")
		require.Equal(t, 1, strings.Count(log.String(), "the API server does not say who may see debug pages"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "the API server says again who may see debug pages"), log.String())
		require.Contains(t, log.String(), `"somebody asks for a debug page" user="ann" path="/dump" allowed=true`)
		require.NotContains(t, log.String(), "t-ann")
		require.NotContains(t, log.String(), "t-bob")
	})
}

// A client that goes away is no silence of the API server.
func TestClientGoesAway(t *testing.T) {
	var log strings.Builder
	api := newServer()
	api.hang = make(chan struct{})
	h := New(api, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))).Page(page)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/dump", nil)
	r.Header.Set("Authorization", "Bearer t-ann")
	h.ServeHTTP(httptest.NewRecorder(), r)
	require.Empty(t, log.String())
}

// Only so many requests ask at a time; the others do not wait.
func TestFewAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newServer()
		h := New(api, klog.Logger{}).Page(page)
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		api.hang = make(chan struct{})
		codes := make(chan int)
		for i := range atOnce {
			addr := fmt.Sprintf("10.0.0.%d", i/atOnceOfOne)
			go func() { codes <- from(t, h, addr, "/dump", fmt.Sprintf("Bearer guess%d", i)).Code }()
		}
		synctest.Wait()
		began := time.Now()
		require.Equal(t, 503, get(t, h, "/dump", "Bearer t-bob").Code)
		require.Equal(t, 200, get(t, h, "/dump", "Bearer t-ann").Code)
		require.Zero(t, time.Since(began))
		close(api.hang)
		for range atOnce {
			require.Equal(t, 401, <-codes)
		}
		require.Equal(t, 403, get(t, h, "/dump", "Bearer t-bob").Code)
	})
}
