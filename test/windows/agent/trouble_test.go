//go:build linux

package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// What docs/troubleshooting.md tells of nodes in trouble is what bundles of
// npm.exe say. Those in examples/trouble were made here: with WINNPM_TROUBLE
// they are written there anew.
func TestTroubleShows(t *testing.T) {
	const invalidPolicy = 0x803B000D
	for _, tc := range []struct {
		name     string
		trouble  func(h *host, w *world, n *npm)
		shows    string // in the dump, once it is there
		ask      []string
		traced   []string // parts of what kubectl npm trace says
		recorded string   // a part of what kubectl npm replay says
	}{
		{
			"refused",
			func(h *host, w *world, _ *npm) {
				h.Inject(hnsd.Fault{Proc: "HcnModifyEndpoint", Code: invalidPolicy, Times: -1})
				w.policy("shop", "from-far", fromFar)
			},
			`"reason":"HNSRejected"`,
			[]string{"shop/far", "shop/db:443/TCP"},
			[]string{"BLOCKED  shop/far -> shop/db:443/TCP", "HNSRejected: "},
			"(0x803b000d)",
		},
		{
			"overwritten",
			func(h *host, w *world, n *npm) {
				eventually(t, 2*settle, func() string {
					if len(h.ours(dbAddr)) > 0 {
						_, theirs := h.endpoint(dbAddr)
						require.NoError(t, h.Sim().SetPolicies(h.endpoints[dbAddr], theirs))
					}
					if !strings.Contains(n.page("/npm/v1/debug/manager"), `"reason":"ForeignWrites"`) {
						return "it is not disputed"
					}
					return ""
				})
			},
			`"reason":"ForeignWrites"`,
			[]string{"shop/far", "shop/db:80/TCP"},
			[]string{"UNKNOWN  shop/far -> shop/db:80/TCP", "knows one half only, which allows it", "\n  It should be BLOCKED since ", "ForeignWrites: "},
			"3 rules missing",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := begin(t)
			h, w, n := openShop(t)
			tc.trouble(h, w, n)
			eventually(t, settle, func() string {
				if dump := n.page("/npm/v1/debug/manager"); !strings.Contains(dump, tc.shows) {
					return "the dump does not say " + tc.shows
				}
				return ""
			})

			bundle := filepath.Join(t.TempDir(), tc.name+".zip")
			if dir := os.Getenv("WINNPM_TROUBLE"); dir != "" {
				bundle = filepath.Join(dir, tc.name+".zip")
				require.NoError(t, os.RemoveAll(bundle))
			}
			npm := func(code int, args ...string) string {
				t.Helper()
				out, err := exec.CommandContext(t.Context(), filepath.Join(p.bin, "kubectl-npm"), args...).CombinedOutput()
				var exited *exec.ExitError
				if code == 0 {
					require.NoError(t, err, string(out))
				} else {
					require.True(t, errors.As(err, &exited) && exited.ExitCode() == code, "%v: %s", err, out)
				}
				return string(out)
			}
			npm(0, "support-bundle", "--server", n.url, "-o", bundle)
			code := 3
			if strings.HasPrefix(tc.traced[0], "UNKNOWN") {
				code = 4
			}
			said := npm(code, append([]string{"trace", "--dump", bundle}, tc.ask...)...)
			t.Log(said)
			for _, part := range tc.traced {
				require.Contains(t, said, part)
			}
			said = npm(0, "replay", bundle)
			t.Log(said)
			require.Contains(t, said, tc.recorded)
		})
	}
}
