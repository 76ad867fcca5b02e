package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command runs a command line.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs}, func(string) string { return "" })
	return code, out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args   string
		code   int
		stdout string // a part of it; "" for nothing at all
		stderr string // the line; "" for nothing at all
	}{
		{"version", 0, "npm ", ""},
		{"--version", 0, "npm ", ""},
		{"--help", 0, "start", ""},
		{"", 2, "", "npm: say which command; npm --help lists them"},
		{"strart", 2, "", `npm: unknown command "strart" for "npm" Did you mean this? start`},
		{"install-cni --mode no", 2, "", `npm: install-cni: --mode "no": strict, wait and off are modes`},
		{"install-cni --wait 1500ms", 2, "", "npm: install-cni: --wait 1.5s: give whole seconds, 1s to 5m"},
		{"uninstall-cni --conf-file ../a.conflist", 2, "", `npm: uninstall-cni: --conf-file "../a.conflist": give the name of a .conflist in --conf-dir`},
		{"start extra", 2, "", `npm: start: unknown command "extra" for "npm start"`},
		{"start --nonsense", 2, "", "npm: start: unknown flag: --nonsense"},
		{"start --hns-timeout 0", 2, "", "npm: start: --reconcile-interval and --hns-timeout must be above 0"},
		{"start --reconcile-interval -1s", 2, "", "npm: start: --reconcile-interval and --hns-timeout must be above 0"},
		{"start --log-level loud", 2, "", `npm: start: --log-level "loud": off, error, warn, info and debug are levels`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			args := strings.Fields(tc.args)
			if args == nil {
				args = []string{} // nil means the arguments of this process
			}
			code, stdout, stderr := command(t, "", args...)
			require.Equal(t, tc.code, code, stderr)
			if tc.stdout == "" {
				require.Empty(t, stdout)
			} else {
				require.Contains(t, stdout, tc.stdout)
			}
			if tc.stderr == "" {
				require.Empty(t, stderr)
			} else {
				require.Equal(t, tc.stderr+"\n", stderr)
			}
		})
	}
}
