package controllers

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
)

// TestCutOffJSONLists: a list of JSON that ends before its last brace is an error, wherever that is
// and whether its objects are decoded one by one or together. What came until then is no whole list.
func TestCutOffJSONLists(t *testing.T) {
	for _, kind := range []itemKind{podItems, policyItems, clusterItems} {
		for _, whole := range []string{
			`{"kind": "LIST", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`,
			`{"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "7"}, "kind": "LIST"}`,
		} {
			whole = strings.ReplaceAll(whole, "LIST", kind.list)
			read := func(text string) (objects int, err error) {
				_, err = kind.each(bufio.NewReader(strings.NewReader(text)), func(k8sruntime.Object) error {
					objects++
					return nil
				})
				return objects, err
			}
			objects, err := read(whole)
			require.NoError(t, err, kind.list)
			require.Equal(t, strings.Count(whole, "name"), objects)
			for n := range whole {
				_, err := read(whole[:n])
				require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s", whole[:n])
			}
		}
	}
}
