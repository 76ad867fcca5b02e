package hnsd

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers of the header are those of ops, name by name. What the server answers is asked by the
// doctor's tests, and under Wine.
func TestOperationsOfTheHeader(t *testing.T) {
	header, err := os.ReadFile("../dll/hnsd.h")
	require.NoError(t, err)
	got, next := map[uint32]string{}, uint32(0)
	for _, m := range regexp.MustCompile(`OP_([A-Z_]+)(?: = (\d+))?,`).FindAllStringSubmatch(string(header), -1) {
		if m[2] != "" {
			n, err := strconv.ParseUint(m[2], 10, 32)
			require.NoError(t, err)
			next = uint32(n)
		}
		got[next] = strings.ReplaceAll(m[1], "_", "")
		next++
	}
	want := map[uint32]string{}
	for number, op := range ops {
		want[number] = strings.ToUpper(strings.TrimPrefix(op.name, "Hcn"))
	}
	require.Equal(t, want, got)
}
