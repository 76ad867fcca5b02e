package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// matrix is an answer that the page draws.
type matrix struct {
	Rows, Columns []struct {
		Namespace string
		Name      string
		Pods      int
	}
	Cells []string
}

// alone tells the one pod of a workload and itself.
func (m matrix) alone(row, col int) bool {
	return m.Rows[row].Name == m.Columns[col].Name && m.Rows[row].Pods == 1
}

var words = map[byte]string{'a': "allowed", 'p': "allowed", 'b': "blocked", 'u': "unknown"}

// shownWords are the page's for a verdict.
var shownWords = map[string]string{"allowed": "✓ allowed", "blocked": "✕ blocked", "unknown": "? not known"}

// paintedColours has for each cell of a matrix of $1 rows and $2 columns the
// colour beside its glyph, empty out of sight.
const paintedColours = `((grid) => {
	const canvas = grid.querySelector('canvas');
	const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
	const [size, left, top] = ['size', 'left', 'top'].map((name) => Number(grid.dataset[name]));
	const at = (row, col) => {
		const [x, y] = [left + (col + 0.2) * size, top + (row + 0.2) * size].map((n) => Math.round(n * devicePixelRatio));
		return x < width && y < height ? data.slice(4 * (y * width + x), 4 * (y * width + x) + 3).join() : '';
	};
	return Array.from({ length: $1 }, (_, row) => Array.from({ length: $2 }, (_, col) => at(row, col)));
})(document.querySelector('.grid'))`

// TestPageLoads: counts and matrix are there, and what is drawn is what
// the server says.
func TestPageLoads(t *testing.T) {
	base := simulate(t, shop)
	b := open(t, base, "", 1440, 900)
	b.painted()
	status := ask[struct {
		Counts struct{ Pods, Endpoints, Policies, Sets int }
	}](t, base, "status")
	require.Contains(t, b.text("#node"), "a simulation")
	require.Empty(t, b.text("#health"), "manifests have no agent that could be unhealthy")
	require.Contains(t, b.text("#tiles"), "18pods")
	require.Equal(t, 18, status.Counts.Pods)
	require.Contains(t, b.text("#tiles"), "0pending")
	m := ask[matrix](t, base, "matrix")
	require.Equal(t, len(m.Rows), eval[int](b, "Number(document.querySelector('.grid').getAttribute('aria-rowcount'))"))
	allowed := 0
	drawn := map[byte]string{}
	colours := eval[[][]string](b, paintedColours, len(m.Rows), len(m.Columns))
	for row := range m.Rows {
		for col := range m.Columns {
			letter := m.Cells[row][col]
			if m.alone(row, col) {
				continue
			}
			if letter == 'a' || letter == 'p' {
				allowed++
			}
			colour := colours[row][col]
			if drawn[letter] == "" {
				drawn[letter] = colour
			}
			if colour != "" {
				require.Equal(t, drawn[letter], colour, "the colour of %s to %s", m.Rows[row].Name, m.Columns[col].Name)
			}
		}
	}
	require.Positive(t, allowed)
	require.NotEqual(t, drawn['a'], drawn['b'])
	require.Contains(t, b.text(".legend"), "✓ "+number(allowed)+" allowed")
	b.picture("matrix-light")

	b.clickOn("[...document.querySelectorAll('.segmented button')].find((el) => el.textContent === '5432/TCP')")
	b.wait("document.querySelector('.grid').dataset.painted === '5432/TCP'")
	require.Contains(t, eval[string](b, "location.hash"), "port=5432")
}

func number(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// TestClickExplains: what a click on a cell shows is what the cell and `npm
// trace` say.
func TestClickExplains(t *testing.T) {
	base := simulate(t, shop)
	m := ask[matrix](t, base, "matrix?port=5432/TCP")
	b := open(t, base, "#/matrix?port=5432/TCP", 1440, 1100)
	b.painted()
	seen := map[byte]bool{}
	for row := range m.Rows {
		for col := range m.Columns {
			letter := m.Cells[row][col]
			if m.alone(row, col) || seen[letter] && (row+col)%9 != 0 {
				continue // these are enough
			}
			seen[letter] = true
			b.click(b.cell(row, col))
			from, to := m.Rows[row].Name, m.Columns[col].Name
			b.wait(`((text) => text.startsWith($1) && text.includes(' to ' + $2))(document.querySelector('#panel [data-summary]')?.dataset.summary ?? '')`, from, to)
			question, err := url.QueryUnescape(eval[string](b, "new URLSearchParams(location.hash.split('?')[1]).get('show')"))
			require.NoError(t, err)
			said := trace(t, strings.TrimPrefix(question, "trace:"))
			require.Equal(t, said, words[letter], "%s to %s", from, to)
			require.Equal(t, shownWords[said], b.text("#panel .verdict .chip"))
		}
	}
	require.True(t, seen['a'] && seen['b'], "both kinds were asked about")
	b.picture("trace-light")
	b.prefer("dark")
	b.picture("trace-dark")
}

// trace asks `kubectl npm trace` for its verdict about the same manifests.
func trace(t *testing.T, question string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), npm, "trace", "--manifests", shop, "-o", "json", question).Output()
	if code := (*exec.ExitError)(nil); !errors.As(err, &code) { // it says the verdict in its exit code too
		require.NoError(t, err)
	}
	var answer struct{ Verdict string }
	require.NoError(t, json.Unmarshal(out, &answer), question)
	return answer.Verdict
}

// TestContested: a connection that is allowed to an address of which nobody knows whose it is, is
// not drawn as allowed at that end, and why is said.
func TestContested(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	pod := "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, status: {podIP: %s}}\n"
	text := fmt.Sprintf(pod, "web", "x", "10.0.0.1") + fmt.Sprintf(pod, "web", "z", "10.0.0.1") + fmt.Sprintf(pod, "db", "x", "10.0.0.2")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	b := open(t, simulate(t, path), "#/matrix?show=trace:x/db->x/web:80/TCP", 1440, 1000)
	b.wait("document.querySelector('#panel .verdict') !== null")
	require.Equal(t, shownWords["unknown"], b.text("#panel .verdict .chip"))
	require.Equal(t, shownWords["allowed"], b.text("#panel section:nth-of-type(1) h3 .chip"))
	require.Equal(t, shownWords["unknown"], b.text("#panel section:nth-of-type(2) h3 .chip"))
	require.Contains(t, b.text("#panel section:nth-of-type(2)"), "x/web may not own its address")
	require.NotContains(t, b.text("#panel section:nth-of-type(1)"), "It is not known")
	b.picture("contested")
}

// TestTraceForm: any two ends can be asked about, and a wrong one is said.
func TestTraceForm(t *testing.T) {
	b := open(t, simulate(t, shop), "#/matrix?show=trace:shop/api-0->:", 1440, 1000)
	b.painted()
	b.clickOn("document.getElementById('trace-to')")
	b.press(strings.Split("8.8.8.8", "")...)
	b.press(kb.Tab)
	b.press(strings.Split("53/UDP", "")...)
	b.press(kb.Enter)
	b.wait("document.querySelector('#panel .verdict .chip')?.textContent === '✕ blocked'")
	require.Contains(t, b.text("#panel"), "nothing is filtered there")
}

// TestSearch finds pods, policies and traces.
func TestSearch(t *testing.T) {
	b := open(t, simulate(t, shop), "", 1440, 900)
	b.painted()
	find := func(text string) {
		t.Helper()
		b.press("/")
		b.wait("document.activeElement.id === 'searchbox'")
		b.press(strings.Split(text, "")...)
		b.wait("!document.getElementById('found').hidden && document.querySelector('#found [aria-selected=true]') !== null && document.getElementById('found').dataset.of === $1", text)
	}
	find("db-0")
	b.picture("search-light")
	b.press(kb.Enter)
	b.wait("document.querySelector('#panel .objectname')?.textContent === 'shop/db-0'")
	require.Equal(t, "panel", eval[string](b, "document.activeElement.id"))
	b.picture("pod-light")

	find("shop/data")
	require.Equal(t, "Policyshop/dataNetworkPolicy", b.text("#found [aria-selected=true]"))
	b.press(kb.Enter)
	b.wait("document.querySelector('#panel h2').textContent === 'Policy'")

	find("shop/worker-0 -> shop/db-0:5432/TCP")
	b.press(kb.Enter)
	b.wait("document.querySelector('#panel .verdict .chip')?.textContent === '✓ allowed'")

	find("storefront")
	b.press(kb.ArrowDown, kb.ArrowUp, kb.Escape)
	require.Equal(t, "", eval[string](b, "document.getElementById('searchbox').value"))
}

// TestKeyboard: everything can be reached and done without a mouse, and what has
// the focus shows it.
func TestKeyboard(t *testing.T) {
	b := open(t, simulate(t, shop), "#/matrix?port=5432/TCP", 1440, 1000)
	b.painted()
	b.press(kb.Tab)
	require.Equal(t, "skip", eval[string](b, "document.activeElement.id"))
	b.tabTo("el.classList.contains('grid')")
	require.NotEqual(t, "0px", eval[string](b, "getComputedStyle(document.activeElement).outlineWidth"))
	first := b.text("#active-cell")
	b.press(kb.ArrowDown, kb.ArrowDown, kb.ArrowRight)
	moved := b.text("#active-cell")
	require.NotEqual(t, first, moved)
	require.Equal(t, "3 2", eval[string](b, "`${document.querySelector('.grid [role=row]').getAttribute('aria-rowindex')} ${document.getElementById('active-cell').getAttribute('aria-colindex')}`"))
	b.press(kb.End, kb.Home, kb.PageDown, kb.PageUp, kb.ArrowUp, kb.ArrowLeft)
	b.press(kb.Enter)
	b.wait("document.querySelector('#panel .verdict') !== null")
	b.press(kb.Escape)
	b.wait("document.querySelector('#panel .verdict') === null && document.querySelector('#panel [aria-label=\"Close details\"]').hidden")

	b.tabTo("el.id === 'skip'") // once around
	b.tabTo("el.textContent === 'Pods'")
	b.press(kb.Enter)
	b.wait("document.querySelector('.detail .objectname') !== null")
	b.tabTo("el.closest('.detail') !== null")
	b.press(kb.Enter)
	b.wait("!document.getElementById('panel').hidden || document.querySelector('.detail') !== null")
	b.press(kb.Escape)
}
