package page

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// openView waits for a view of a list and one of its objects.
func openView(t *testing.T, base, place string, width int64) *tab {
	t.Helper()
	b := open(t, base, place, width, 900)
	b.wait("document.querySelector('.setlist [data-object]') !== null")
	return b
}

// TestPoliciesView: every policy is there with what it selects, whether it is in force, and
// its YAML; the keyboard reaches all of it.
func TestPoliciesView(t *testing.T) {
	base := simulate(t, shop)
	list := ask[struct {
		Total   int
		Entries []struct{ Policy string }
	}](t, base, "policies")
	b := openView(t, base, "#/policies", 1400)
	require.Equal(t, list.Total, eval[int](b, "document.querySelectorAll('.setlist [data-object]').length"))
	b.tabTo("el.id === 'policiesfilter'")
	b.press(strings.Split("shop/da", "")...)
	b.wait("document.querySelectorAll('.setlist [data-object]').length === 1 && document.querySelector('.detail .objectname')?.textContent === 'shop/data'")
	require.Contains(t, eval[string](b, "location.hash"), "filter=shop%2Fda")
	require.Equal(t, "✓ in force", b.text(".detail .state .chip"))
	require.Contains(t, b.text(".detail dl"), "shop/cache-0, shop/db-0")
	require.Contains(t, b.text(".detail pre"), "kind: NetworkPolicy\nmetadata:\n  name: data\n  namespace: shop\nspec:\n")

	b.tabTo("el.dataset.object === 'shop/data'")
	b.press(kb.Enter)
	b.wait("location.hash.includes('object=shop%2Fdata')")
	require.Equal(t, "shop/data", eval[string](b, "document.activeElement.dataset.object"), "the focus stays")
	b.tabTo("el.textContent === 'shop/db-0'")
	b.press(kb.Enter)
	b.wait("document.querySelector('.view.pods .detail .objectname')?.textContent === 'shop/db-0'")
	require.True(t, eval[bool](b, "document.getElementById('panel').hidden"), "the view shows it")
}

// TestPodsView: every pod is there with what it was made for and whether its rules are in
// force, and leads to its policies and traces.
func TestPodsView(t *testing.T) {
	base := simulate(t, shop)
	b := openView(t, base, "#/pods", 1400)
	b.tabTo("el.dataset.object === 'shop/api-0'")
	b.press(kb.Enter)
	b.wait("document.querySelector('.detail .objectname')?.textContent === 'shop/api-0'")
	b.tabTo("el.textContent === 'shop/allow-scrape'")
	b.press(kb.Enter)
	b.wait("document.querySelector('.view.policies .detail .objectname')?.textContent === 'shop/allow-scrape'")
	eval[bool](b, "(history.back(), true)")
	b.wait("document.querySelector('.view.pods .detail .objectname')?.textContent === 'shop/api-0'")
	b.tabTo("el.textContent === 'Trace to it'")
	b.press(kb.Enter)
	b.wait("document.querySelector('.view.matrix') !== null && document.getElementById('trace-to').value === 'shop/api-0'")
}

// TestSelectsNoPod: a policy that changes nothing says so, in front of those in force, and a
// policy of pods that are elsewhere is not taken for one.
func TestSelectsNoPod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "typo.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {nodeName: n1, containers: []}}
---
{apiVersion: v1, kind: Pod, metadata: {name: far, namespace: shop, labels: {app: far}}, spec: {nodeName: n2, containers: []}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a-right, namespace: shop}, spec: {podSelector: {matchLabels: {app: web}}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: b-far, namespace: shop}, spec: {podSelector: {matchLabels: {app: far}}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: c-typo, namespace: shop}, spec: {podSelector: {matchLabels: {app: wbe}}}}
`), 0o600))
	b := openView(t, simulate(t, file, "--node", "n1"), "#/policies", 1400)
	require.Equal(t, []string{"shop/c-typo: ∅ selects no pod", "shop/a-right: ✓ in force", "shop/b-far: – idle here"},
		eval[[]string](b, "[...document.querySelectorAll('.setlist [data-object]')].map((el) => `${el.dataset.object}: ${el.querySelector('.chip').textContent}`)"))
	b.wait("document.querySelector('.detail .state')?.textContent.includes('spec.podSelector matches none of the pods of namespace shop') ?? false")
	require.Equal(t, "3 of 3; 1 to look at", b.text(".view.policies .side [role=status]"))
	b.picture("selects-no-pod-light")
}

// TestClusterPolicies are in the list of policies, with their YAML.
func TestClusterPolicies(t *testing.T) {
	b := openView(t, simulate(t, "../../examples/tiers"), "#/policies?filter=clusternetwork&object=platform", 1400)
	b.wait("document.querySelector('.detail pre')?.textContent.includes('kind: ClusterNetworkPolicy') ?? false")
	require.Contains(t, b.text(".detail dl"), "tier Admin")
	require.Contains(t, b.text(".setlist"), "ClusterNetworkPolicy")
}

// TestPhoneViews: on a phone an object comes as a sheet over its list, which stays where it is.
func TestPhoneViews(t *testing.T) {
	b := openView(t, simulate(t, shop), "#/policies", 390)
	at := "Math.round(document.querySelector('.setlist [data-object=\"payments/card\"]').getBoundingClientRect().y)"
	b.wait("document.querySelector('.setlist [data-object=\"payments/card\"]') !== null")
	eval[bool](b, "(document.querySelector('.setlist [data-object=\"payments/card\"]').scrollIntoView({ block: 'center' }), true)")
	before := eval[int](b, at)
	b.clickOn("document.querySelector('.setlist [data-object=\"payments/card\"]')")
	b.wait("document.querySelector('#panel .objectname')?.textContent === 'payments/card'")
	require.Equal(t, before, eval[int](b, at))
	require.Equal(t, "true", eval[string](b, "document.querySelector('.setlist [data-object=\"payments/card\"]').getAttribute('aria-current')"))
	b.clickOn("[...document.querySelectorAll('#panel a')].find((el) => el.textContent === 'payments/card-0')")
	b.wait("document.querySelector('.view.pods') !== null && document.querySelector('#panel .objectname')?.textContent === 'payments/card-0'")
	b.press(kb.Escape)
	b.wait("document.getElementById('panel').hidden && document.querySelector('.view.pods') !== null")
}

// TestRolledUp: a namespace is one row and one column until it is opened, by a click on a cell
// or on its name, or by Enter; closed ones count what is in them.
func TestRolledUp(t *testing.T) {
	base := simulate(t, shop)
	m := ask[matrix](t, base, "matrix")
	b := open(t, base, "#/matrix?open=-", 1400, 900)
	b.painted()
	rows := "Number(document.querySelector('.grid').getAttribute('aria-rowcount'))"
	namespaces := map[string]int{}
	for _, w := range m.Rows {
		namespaces[w.Namespace]++
	}
	require.Equal(t, len(namespaces), eval[int](b, rows))
	b.tabTo("el.classList.contains('grid')")
	b.press(kb.End)
	for range len(namespaces) {
		b.press(kb.ArrowDown)
	}
	allowed, some := 0, 0
	of := 0
	for r, from := range m.Rows {
		for c, to := range m.Columns {
			if from.Namespace != "shop" || to.Namespace != "shop" || m.alone(r, c) {
				continue
			}
			of++
			switch m.Cells[r][c] {
			case 'a':
				allowed++
			case 'p':
				some++
			}
		}
	}
	require.Zero(t, allowed)
	require.Equal(t, "shop to shop, any port: of "+number(of)+" connections between workloads "+number(some)+" allowed on some ports; Enter opens the namespace", b.text("#active-cell"))
	b.press(kb.Enter)
	b.wait(rows+" === $1", len(namespaces)-1+namespaces["shop"])
	require.Contains(t, eval[string](b, "location.hash"), "open=shop")
	b.clickOn("[...document.querySelectorAll('.controls button')].find((el) => el.textContent === 'Open all')")
	b.wait(rows+" === $1", len(m.Rows))
	b.clickOn("[...document.querySelectorAll('.controls button')].find((el) => el.textContent === 'Close all')")
	b.wait(rows+" === $1", len(namespaces))
	name := b.cell(len(namespaces)-1, 0)
	name.X -= 70 // its name
	b.click(name)
	b.wait(rows+" === $1", len(namespaces)-1+namespaces["shop"])
}

// TestAnyPort: the page opens on any port, a cell says which ones are allowed, and its trace is
// about the first of them.
func TestAnyPort(t *testing.T) {
	base := simulate(t, shop)
	m := ask[struct {
		matrix
		Port      string
		PortTexts []string
		Which     [][]int
	}](t, base, "matrix")
	require.Equal(t, "any", m.Port)
	b := open(t, base, "", 1400, 1300)
	b.painted()
	require.Equal(t, "any", eval[string](b, "document.querySelector('.grid').dataset.painted"))
	for r := range m.Rows {
		for c := range m.Columns {
			if m.Cells[r][c] != 'p' || m.alone(r, c) || (r+c)%5 != 0 {
				continue
			}
			ports := m.PortTexts[m.Which[r][c]]
			b.click(b.cell(r, c))
			b.wait("document.querySelector('#panel [data-summary]')?.dataset.summary.startsWith($1) ?? false", m.Rows[r].Name)
			b.wait("document.querySelector('#panel .verdict .chip')?.textContent === '✓ allowed'")
			require.Contains(t, b.text("#active-cell"), "any port: allowed on "+ports)
		}
	}
}

// TestManyPods: a list shows what needs a look and so many others, and the filter finds the
// rest.
func TestManyPods(t *testing.T) {
	b := openView(t, between(t, simulate(t, shop), func(path string, body []byte) []byte {
		if path == "pods" {
			return bytes.Replace(body, []byte(`"found":18`), []byte(`"found":9876`), 1)
		}
		return body
	}), "#/pods", 1400)
	require.Contains(t, b.text(".setlist"), "and 9,858 more; the filter finds them")
}

// TestListsStay: an entry that is clicked stays where it is, also far down its list, and so
// does the one beside it.
func TestListsStay(t *testing.T) {
	base := simulate(t, shop)
	for _, view := range []struct{ name, entry string }{
		{"policies", `[data-object="shop/storefront"]`}, {"pods", `[data-object="shop/worker-0"]`},
	} {
		b := open(t, base, "#/"+view.name, 1400, 700)
		entry := "document.querySelector('.setlist " + view.entry + "')"
		b.wait(entry + " !== null && document.querySelector('.detail .objectname') !== null")
		eval[bool](b, "("+entry+".scrollIntoView({ block: 'center' }), true)")
		at := "((box, list) => [Math.round(box.y), Math.round(list.scrollTop)])(" + entry + ".getBoundingClientRect(), document.querySelector('.setlist'))"
		before := eval[[]int](b, at)
		require.Positive(t, before[1], "the list is scrolled")
		b.clickOn(entry)
		b.wait(entry + ".getAttribute('aria-current') === 'true'")
		require.Equal(t, before, eval[[]int](b, at), view.name)
	}
}
