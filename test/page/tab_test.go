package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// testLimit bounds everything that one tab does.
const testLimit = 2 * time.Minute

// tab is a tab of its own browser profile that shows the page.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu    sync.Mutex
	wrong []string // what the browser complained about
}

// open opens the page of a server at a place, "#/matrix" or the like.
func open(t *testing.T, base, place string, width, height int64) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	require.NoError(t, chromedp.Do(ctx)) // its life is not bound to the limit
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(base+"/"+place)))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(t, b.wrong, "the browser complained")
	})
	b.wait("document.querySelector('#tiles .tile') !== null")
	return b
}

// listen keeps errors and warnings of the console, and requests that failed but
// for those that the page gave up itself.
func (b *tab) listen(event any) {
	complain := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complain("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		complain("console: %s", e.Type)
	case *log.EventEntryAdded:
		complain("log: %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventLoadingFailed:
		if !e.Canceled {
			complain("request failed: %s", e.ErrorText)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= http.StatusBadRequest {
			complain("answer %d: %s", e.Response.Status, e.Response.URL)
		}
	}
}

// eval evaluates an expression in a tab; a promise is waited for.
func eval[T any](b *tab, expression string, args ...any) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script(b, expression, args), chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return out
}

// script makes arguments of an expression out of values, as $1, $2.
func script(b *tab, expression string, args []any) string {
	b.t.Helper()
	names, values := "", ""
	for i, arg := range args {
		text, err := json.Marshal(arg)
		require.NoError(b.t, err)
		names, values = fmt.Sprintf("%s$%d,", names, i+1), values+string(text)+","
	}
	return fmt.Sprintf("((%s) => (%s))(%s)", names, expression, values)
}

// waitLimit is how long one thing may take to appear.
const waitLimit = 30 * time.Second

// wait waits until an expression is true. The page forbids eval, which
// chromedp.Poll works with.
func (b *tab) wait(expression string, args ...any) {
	b.t.Helper()
	ok := eval[bool](b, fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		const look = () => {
			if (%s) done(true);
			else if (performance.now() > end) done(false);
			else setTimeout(look, 10);
		};
		look();
	})`, waitLimit.Milliseconds(), expression), args...)
	if !ok {
		b.picture("failed-" + b.t.Name())
	}
	require.True(b.t, ok, "did not come true: %s %v", expression, args)
}

// text returns the text of the first element that a selector finds.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector($1)?.textContent ?? ''", selector)
}

// press presses keys, one after the other.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		r, _ := utf8.DecodeRuneInString(key)
		events := kb.Encode(r)
		for _, e := range events {
			if e.Type == kb.KeyChar {
				continue // the text goes with the key: who takes the key takes the text
			}
			if e.Type == kb.KeyDown {
				e.Text = textOf(events)
			}
			_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, *e)
			require.NoError(b.t, err)
		}
	}
}

// textOf returns what a key types.
func textOf(events []*input.DispatchKeyEventParams) string {
	for _, e := range events {
		if e.Type == kb.KeyChar {
			return e.Text
		}
	}
	return ""
}

// tabTo presses the tabulator until an expression about the focused element,
// el, is true.
func (b *tab) tabTo(expression string, args ...any) {
	b.t.Helper()
	const most = 80
	for range most {
		b.press(kb.Tab)
		if eval[bool](b, "Boolean(((el) => "+expression+")(document.activeElement))", args...) {
			return
		}
	}
	b.t.Fatalf("the tabulator never came to %s", expression)
}

// point is a place in the window, in CSS pixels.
type point struct{ X, Y float64 }

// click clicks at a place.
func (b *tab) click(at point) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.MouseClickXY(at.X, at.Y)))
}

// clickOn clicks the middle of the element that an expression returns.
func (b *tab) clickOn(expression string, args ...any) {
	b.t.Helper()
	b.click(eval[point](b, `((el) => {
		el.scrollIntoView({ block: 'center', inline: 'center' });
		const box = el.getBoundingClientRect();
		return { X: box.x + box.width / 2, Y: box.y + box.height / 2 };
	})(`+expression+")", args...))
}

// cell returns where a cell of the matrix is; it must be in sight.
func (b *tab) cell(row, col int) point {
	b.t.Helper()
	return eval[point](b, `((grid) => {
		const box = grid.getBoundingClientRect();
		const { size, left, top } = grid.dataset;
		return { X: box.x + Number(left) + ($2 + 0.5) * size - grid.scrollLeft, Y: box.y + Number(top) + ($1 + 0.5) * size - grid.scrollTop };
	})(document.querySelector('.grid'))`, row, col)
}

// painted waits for the matrix.
func (b *tab) painted() {
	b.t.Helper()
	b.wait("Boolean(document.querySelector('.grid')?.dataset.painted)")
}

// prefer makes the system have dark or light colours.
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

// ask asks the server itself.
func ask[T any](t *testing.T, base, path string) T {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/"+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode, path)
	var out T
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	return out
}
