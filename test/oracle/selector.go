package oracle

import (
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selectors keeps what reading a selector gave, by its JSON. A verdict reads every selector
// of a cluster, most of the time for regular expressions that check its keys and values.
// What a selector matches is found anew for each packet.
var selectors sync.Map

type readSelector struct {
	labels.Selector

	err error
}

// read returns what a selector selects by, and an error when it is malformed.
func read(selector *metav1.LabelSelector) (labels.Selector, error) {
	text, err := json.Marshal(selector)
	if err != nil {
		return nil, err
	}
	kept, ok := selectors.Load(string(text))
	if !ok {
		is, err := metav1.LabelSelectorAsSelector(selector)
		kept, _ = selectors.LoadOrStore(string(text), readSelector{is, err})
	}
	is, _ := kept.(readSelector)
	return is.Selector, is.err
}
