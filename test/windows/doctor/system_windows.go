package main

import (
	"fmt"
	"os/exec"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnstest"
)

// facts returns the version of Windows, and the settings of HNS in the registry.
func facts() (out string) {
	for _, args := range [][]string{{"cmd", "/c", "ver"}, {"reg", "query", `HKLM\SYSTEM\CurrentControlSet\Services\hns\State`}} {
		text, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if out += string(text); err != nil {
			out += fmt.Sprintf("%s: %v\n", args[0], err)
		}
	}
	return out
}

// thisSystem returns the HNS of this node, or test/windows/hnsd if that replaces it.
func thisSystem() hnstest.System {
	return hnstest.System{HNS: hnstest.ThisHNS(), Client: func(network string) (hns.Client, error) {
		return hcsadapter.New(hcsadapter.Options{Network: network, Now: time.Now})
	}}
}
