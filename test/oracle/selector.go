package oracle

import (
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selectors are the well-formed selectors that were read, by their JSON. A verdict reads every
// selector of a cluster, most of the time for regular expressions that check its keys and values.
// What a selector matches is found anew for each packet.
var selectors sync.Map

// read returns what a selector selects by, and an error when it is malformed.
func read(selector *metav1.LabelSelector) (labels.Selector, error) {
	text, err := json.Marshal(selector)
	if err != nil {
		return nil, err
	}
	if known, ok := selectors.Load(string(text)); ok {
		return known.(labels.Selector), nil
	}
	is, err := metav1.LabelSelectorAsSelector(selector)
	if err == nil {
		selectors.Store(string(text), is)
	}
	return is, err
}
