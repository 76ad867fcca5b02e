//go:build linux

package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An hour of a busy cluster, at an event a second, as fast as the API server
// takes it: afterwards HNS is right, no handle is open, and npm.exe is no
// larger than it was after twenty minutes.
func TestAnHourOfChanges(t *testing.T) {
	begin(t)
	const hour = 3600
	h := newHost(t, azure())
	c := newChanges(draw(t, h, size{namespaces: 4, pods: 60, local: 10, policies: 12}), h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(c.kube, ownAddr)

	// What is made once, threads of Windows for one, is made in the first minutes.
	const warm, samples, portions = 330, 30, 180
	var seen []sample
	began := time.Now()
	for i := range portions + warm {
		before, patience := h.writes(), time.After(time.Second) // changes may come to nothing
		for c.events < (i+1)*hour/portions {
			c.step()
		}
		eventually(t, settle, func() string {
			if h.writes() > before || over(patience) {
				return ""
			}
			return "no transaction"
		})
		if i >= warm && i%(portions/samples) == 0 {
			seen = append(seen, n.sample())
		}
	}
	h.waitVerdicts(c.kube, ownAddr)
	n.waitReady()
	reports := n.dump().Reports
	transactions := reports[len(reports)-1].Generation
	t.Logf("%v in %v, %d transactions; DLL calls: %v", c, time.Since(began).Round(time.Second), transactions, h.Counts())
	for i, s := range seen {
		if i%5 == 0 {
			t.Logf("sample %2d: %v", i, s)
		}
	}
	require.Greater(t, transactions, uint64(portions/2), "events must not have been taken all at once")
	require.Zero(t, h.Failed()["HcnModifyNetwork"], "HNS refused a set: %v", h.Failed())
	eventually(t, settle, func() string { // a listing may be under way
		if h.open() > 0 {
			return fmt.Sprintf("%d handles are open, failed calls: %v", h.open(), h.Failed())
		}
		return ""
	})

	first, last := mean(seen[:samples/3]), mean(seen[samples-samples/3:])
	t.Logf("first third: %v", first)
	t.Logf("last third:  %v", last)
	require.LessOrEqual(t, last.goroutines, first.goroutines+3)
	require.LessOrEqual(t, last.files, first.files+10)
	require.LessOrEqual(t, last.heap, first.heap*5/4+1<<20)
	require.LessOrEqual(t, last.resident, first.resident*5/4+8<<20)
}

// sample is how large npm.exe is.
type sample struct {
	goroutines int
	files      int // descriptors of the Unix process
	heap       int // bytes right after a garbage collection
	resident   int // bytes
}

func (s sample) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d KiB heap, %d KiB resident", s.goroutines, s.files, s.heap>>10, s.resident>>10)
}

func (n *npm) sample() sample {
	n.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
	require.NoError(n.t, err)
	return sample{heap: n.heap(), goroutines: n.goroutines(), files: len(files), resident: n.resident()}
}

// resident returns the bytes that npm.exe occupies.
func (n *npm) resident() int {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	require.NoError(n.t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.Atoi(fields[1])
			require.NoError(n.t, err)
			return kib << 10
		}
	}
	require.FailNow(n.t, "no VmRSS", string(text))
	return 0
}

func mean(all []sample) sample {
	var sum sample
	for _, s := range all {
		sum.goroutines += s.goroutines
		sum.files += s.files
		sum.heap += s.heap
		sum.resident += s.resident
	}
	n := len(all)
	return sample{sum.goroutines / n, sum.files / n, sum.heap / n, sum.resident / n}
}
