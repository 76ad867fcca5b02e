//go:build !windows

package windows

import "testing"

func TestContract(t *testing.T) {
	t.Skip("the adapter needs Windows: make test-windows runs this under Wine")
}
