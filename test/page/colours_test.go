package page

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// pale returns the texts whose contrast with what is behind them is below what
// WCAG asks of text (1.4.3, AA).
const pale = `(() => {
	const parse = (text) => {
		const n = text.match(/[\d.]+/g).map(Number);
		return { c: text.startsWith('color(') ? n.slice(0, 3).map((x) => x * 255) : n.slice(0, 3), a: n[3] ?? 1 };
	};
	const over = (top, below) => top.c.map((x, i) => x * top.a + below[i] * (1 - top.a));
	const backdrop = (el) => {
		if (!el) return [255, 255, 255];
		const rect = el instanceof SVGElement && el.closest('g')?.querySelector(':scope > rect');
		const colour = parse(rect ? getComputedStyle(rect).fill : getComputedStyle(el).backgroundColor);
		const parent = rect ? el.closest('svg') : el.parentElement;
		return colour.a === 1 ? colour.c : over(colour, backdrop(parent));
	};
	const light = (c) => {
		const [r, g, b] = c.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const found = new Set();
	let looked = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const el = walker.currentNode.parentElement;
		if (walker.currentNode.textContent.trim() === '' || !el.checkVisibility() || el.closest('.sr, noscript, script, title, datalist, option')) continue;
		const style = getComputedStyle(el);
		const behind = backdrop(el);
		const text = over(parse(el instanceof SVGElement ? style.fill : style.color), behind);
		const [a, b] = [light(text), light(behind)];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		looked++;
		if (ratio < 4.5) found.add(el.tagName + '.' + (el.getAttribute('class') ?? '') + ' in ' + (el.parentElement.getAttribute('class') ?? '') + ': ' + ratio.toFixed(2));
	}
	return looked < 20 ? ['only ' + looked + ' texts'] : [...found];
})()`

// TestColours: every text of every view can be read in light and in dark,
// chosen by the system or by hand.
func TestColours(t *testing.T) {
	base := simulate(t, shop)
	for place, ready := range map[string]string{
		"#/matrix?port=5432/TCP&show=trace:shop/storefront-0->shop/db-0:5432/TCP": "document.querySelector('#panel .verdict') !== null && document.querySelector('.grid').dataset.painted",
		"#/matrix?show=pod:shop/api-0":                                            "document.querySelector('#panel dl') !== null",
		"#/matrix?show=policy:shop/data":                                          "document.querySelector('#panel pre') !== null",
	} {
		b := open(t, base, place, 1440, 1000)
		b.wait("Boolean(" + ready + ")")
		background := map[string]string{}
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme)
			background[scheme] = eval[string](b, "getComputedStyle(document.documentElement).backgroundColor")
			require.Empty(t, eval[[]string](b, pale), "%s in %s", place, scheme)
		}
		require.NotEqual(t, background["light"], background["dark"])

		press := func(word string) {
			b.clickOn("[...document.querySelectorAll('#theme button')].find((el) => el.textContent === $1)", word)
		}
		press("Light")
		require.Equal(t, background["light"], eval[string](b, "getComputedStyle(document.documentElement).backgroundColor"), "though the system is dark")
		require.Equal(t, "light", eval[string](b, "localStorage.getItem('winnpm-theme')"))
		press("Dark")
		b.prefer("light")
		require.Equal(t, background["dark"], eval[string](b, "getComputedStyle(document.documentElement).backgroundColor"))
		press("Auto")
		require.Equal(t, background["light"], eval[string](b, "getComputedStyle(document.documentElement).backgroundColor"))
	}
}

// TestNarrow: nothing is cut off at 900 pixels.
func TestNarrow(t *testing.T) {
	b := open(t, simulate(t, shop), "#/matrix?show=pod:shop/api-0", 900, 1200)
	b.painted()
	b.wait("document.querySelector('#panel dl') !== null")
	require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 900)
	b.picture("narrow-light")
}
