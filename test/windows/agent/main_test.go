//go:build linux

// Package agent proves npm.exe end to end: the Windows binary runs under Wine,
// reads a real API server, and writes to an HNS that is this process, so that
// the suite sees every call and every rule. hack/test-windows.sh runs it.
package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/winnpm/winnpm/test/servers"
)

// programs is what hack/test-windows.sh has built, and the servers that all
// tests share. The tests run one after the other, and each leaves the cluster
// as empty as it found it.
type programs struct {
	bin        string // folder of the programs
	wine       string // the loader of Windows programs
	prefix     string // Wine's folder with system32
	kubeconfig string // the administrator's
	kube       *kube
}

// shared is nil when nobody asked for the suite.
var shared *programs

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/windows/agent:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	p := &programs{bin: os.Getenv("WINNPM_WINE_BIN"), wine: os.Getenv("WINNPM_WINE"), prefix: os.Getenv("WINEPREFIX")}
	if p.bin == "" {
		return m.Run(), nil // every test says why it is skipped
	}
	for _, file := range []string{
		filepath.Join(p.bin, "apiserver-up"), p.exe("npm"), p.exe("doctor"), p.exe("contract"), p.exe("adapter"), p.exe("node"),
		p.wine, filepath.Join(p.prefix, "drive_c", "windows", "system32", "computenetwork.dll"),
	} {
		if _, err := os.Stat(file); err != nil {
			return 0, fmt.Errorf("%w: run \"make test-windows\" in the root of the repository", err)
		}
	}
	var err error
	var stop func()
	if p.kubeconfig, stop, err = servers.Start(filepath.Join(p.bin, "apiserver-up")); err != nil {
		return 0, err
	}
	defer stop()
	client, err := servers.NewClient(p.kubeconfig)
	if err != nil {
		return 0, err
	}
	p.kube = &kube{client}
	shared = p
	return m.Run(), nil
}

// exe returns the path of a Windows program.
func (p *programs) exe(name string) string { return filepath.Join(p.bin, name+".exe") }

// begin returns what the tests share, or skips the test.
func begin(t *testing.T) *programs {
	t.Helper()
	if shared == nil {
		t.Skip("npm.exe needs Wine and a real API server: run make test-windows")
	}
	return shared
}
