package page

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile is markup in the place of a namespace.
const hostile = `<img src=x onerror=hurt()><script>hurt()</script>&lt;'"`

// poisoned is a server in front of another one that puts markup into every name
// of the namespace shop, labels and rules included.
func poisoned(t *testing.T, base string) string {
	t.Helper()
	inJSON := []byte(strings.ReplaceAll(hostile, `"`, `\"`))
	return between(t, base, func(_ string, body []byte) []byte {
		for _, word := range []string{"shop", "tier", "logic"} {
			body = bytes.ReplaceAll(body, []byte(word), inJSON)
		}
		return body
	})
}

// TestHostileNames: text that looks like markup stays text.
func TestHostileNames(t *testing.T) {
	base := poisoned(t, simulate(t, shop))
	for place, ready := range map[string]string{
		"#/matrix?show=trace:shop/storefront-0->shop/db-0:5432/TCP": "document.querySelector('.grid').dataset.painted && document.querySelector('#panel .verdict')",
		"#/matrix?show=pod:shop/api-0":                              "document.querySelector('#panel .acls')",
		"#/policies?object=shop/data":                               "document.querySelectorAll('.setlist [data-object]').length > 1 && document.querySelector('.detail pre')",
		"#/pods?object=shop/api-0":                                  "document.querySelectorAll('.setlist [data-object]').length > 1 && document.querySelector('.detail .acls')",
		"#/matrix?open=-":                                           "document.querySelector('.grid').dataset.painted",
		"#/matrix?show=policy:shop/data":                            "document.querySelector('#panel pre')",
	} {
		b := open(t, base, place, 1440, 1000)
		b.wait("Boolean(" + ready + ")")
		require.Equal(t, 0, eval[int](b, "document.querySelectorAll('main img, main script').length"))
		b.press("/")
		b.press(strings.Split("shop", "")...)
		b.wait("document.getElementById('found').dataset.of === 'shop' && document.querySelectorAll('#found li').length > 10")
		require.Contains(t, eval[string](b, "document.body.innerText"), hostile, "it is shown as it is")
		require.Equal(t, 1, eval[int](b, "document.querySelectorAll('img').length"), "the picture of the head line")
		require.Equal(t, 1, eval[int](b, "document.querySelectorAll('script').length"))
		require.Equal(t, "undefined", eval[string](b, "typeof hurt"))
	}
}
