package oracle

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// readSelectors is how many selectors are kept, a few megabytes of them.
const readSelectors = 10_000

// selectors keeps what reading a selector gave, by its text. A verdict reads every selector
// of a cluster, most of the time for regular expressions that check its keys and values.
// What a selector matches is found anew for each packet.
var selectors = struct {
	sync.Mutex

	byText map[string]readSelector
}{byText: map[string]readSelector{}}

type readSelector struct {
	labels.Selector

	err error
}

// read returns what a selector selects by, and an error when it is malformed.
func read(selector *metav1.LabelSelector) (labels.Selector, error) {
	text := textOf(selector)
	selectors.Lock()
	defer selectors.Unlock()
	is, ok := selectors.byText[text]
	if !ok {
		is.Selector, is.err = metav1.LabelSelectorAsSelector(selector)
		if len(selectors.byText) >= readSelectors {
			clear(selectors.byText)
		}
		selectors.byText[text] = is
	}
	return is.Selector, is.err
}

// textOf returns a text that no other selector has: every part is quoted, so none can be
// taken for two.
func textOf(selector *metav1.LabelSelector) string {
	if selector == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("{")
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		b.WriteString(strconv.Quote(key) + ":" + strconv.Quote(selector.MatchLabels[key]) + ",")
	}
	b.WriteString("}")
	for _, e := range selector.MatchExpressions {
		b.WriteString(strconv.Quote(e.Key) + strconv.Quote(string(e.Operator)) + "[")
		for _, value := range e.Values {
			b.WriteString(strconv.Quote(value) + ",")
		}
		b.WriteString("]")
	}
	return b.String()
}
