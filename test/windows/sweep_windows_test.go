package windows

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"

	"github.com/winnpm/winnpm/test/windows/rawhns"
)

// Names of what the suite makes. Nobody else uses them: what bears one is left over from a
// run that was killed.
const (
	networkName = "winnpm-contract" // of its endpoints, too
	otherName   = "winnpm-contract-other"
	// A namespace has no name, so it gets its GUID from us, as hcsshim gives it none.
	namespaceID = "d0c70000-5f3a-4c1e-9b6d-77696e6e7102"
)

var cleanup = flag.Bool("cleanup", false, "take away what a run that was killed left behind, and run no test")

// TestMain runs the tests, or what a flag asks for in place of them.
func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	switch {
	case *cleanup:
		if err = cleanUp(); err != nil {
			err = fmt.Errorf("something is left: %w", err)
		}
	case *serveFlag != "":
		err = serve(*serveFlag)
	case *dialFlag != "":
		if !dial(*dialFlag) {
			os.Exit(noAnswer)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

// cleanUp sweeps, and says what it found.
func cleanUp() error {
	gone, err := sweep()
	gone = append(gone, sweepContainers()...)
	for _, what := range gone {
		fmt.Println("removed", what)
	}
	if err == nil && len(gone) == 0 {
		fmt.Println("nothing of the contract suite is left on this node")
	}
	return err
}

// sweep takes away everything that bears the suite's names, in whatever order a killed run
// made it: endpoints, their networks, the namespace that they were attached to. It does as
// much as it can.
func sweep() (gone []string, err error) {
	var failed []error
	removed := func(what string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
			return
		}
		gone = append(gone, what)
	}
	endpoints, err := hcn.ListEndpointsQuery(named(networkName))
	failed = append(failed, err)
	for _, e := range endpoints {
		if e.Name != networkName { // whether HNS heeds a filter is not known
			continue
		}
		removed("endpoint "+e.Id, e.Delete())
	}
	networks, err := hcn.ListNetworks()
	failed = append(failed, err)
	for _, n := range networks {
		if n.Name == networkName || n.Name == otherName {
			removed("network "+n.Name, n.Delete())
		}
	}
	_, err = rawhns.New().Do("HcnDeleteNamespace", namespaceID, 0)
	switch {
	case err == nil:
		gone = append(gone, "namespace "+namespaceID)
	case !rawhns.Missing(err):
		failed = append(failed, fmt.Errorf("namespace %s: %w", namespaceID, err))
	}
	return gone, errors.Join(failed...)
}

// named is a query for what bears a name.
func named(name string) hcn.HostComputeQuery {
	return hcn.HostComputeQuery{SchemaVersion: hcn.V2SchemaVersion(), Filter: fmt.Sprintf(`{"Name":%q}`, name)}
}

// makeNamespace makes the namespace that endpoints are attached to.
func makeNamespace() error {
	return rawhns.New().Create("Namespace", namespaceID, 0, `{"Type":"Host","SchemaVersion":{"Major":2,"Minor":0}}`)
}
