//go:build !windows

package hcsadapter

import (
	"fmt"
	"runtime"
)

// New returns ErrMissing, because only Windows has an HNS.
func New(Options) (Client, error) {
	return nil, fmt.Errorf("%w: this build is for %s", ErrMissing, runtime.GOOS)
}
