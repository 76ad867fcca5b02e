package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// agent is the agent of one Windows node, on a simulator.
type agent struct{ sim *hnsfault.Sim }

// tamper changes what an agent reads; nil: nothing.
type tamper func(*controllers.Source)

// startAgent runs the agent of a node until the test ends.
func startAgent(t *testing.T, node string, wrong tamper) *agent {
	t.Helper()
	source, err := controllers.ClusterSource(admin, node)
	require.NoError(t, err)
	if wrong != nil {
		wrong(&source)
	}
	a := &agent{sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})}
	dp := dataplane.New(dataplane.Config{Client: a.sim, Node: node, Now: time.Now, LookPeriod: time.Second})
	ctl := controllers.New(controllers.Config{
		Source: source, Applier: dp, Observer: dp, Progress: dp.Progress, Node: node, RequireNodeAddr: true,
		ApplyInterval: 20 * time.Millisecond, Logger: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctl.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return a
}
