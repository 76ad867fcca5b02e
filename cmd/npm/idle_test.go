package main

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/test/hostile/cluster"
)

// toldOf is an API server that takes Events.
type toldOf struct {
	mu   sync.Mutex // guards told
	told []string
}

// Create implements events.Sink.
func (s *toldOf) Create(_ context.Context, e *eventsv1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, e.Reason+" "+e.Regarding.Namespace+"/"+e.Regarding.Name)
	return nil
}

func (s *toldOf) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.told...)
}

// TestStartTellsOfIdlePolicies: npm start tells the owner of a policy that selects nothing. With
// --dry-run it writes nothing, no Event either.
func TestStartTellsOfIdlePolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		dryRun bool
		told   []string
	}{
		"at work": {false, []string{"SelectsNothing victim/typo"}},
		"dry run": {true, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := cluster.NewServer(cluster.Honest()[0], cluster.Selects("victim", "typo", "wbe"), cluster.Selects("victim", "right", "web"),
					cluster.Pod{Namespace: "victim", Name: "web", Addr: "10.0.0.9", Labels: map[string]string{"role": "web"}}.Object())
				fake, sink := newFake(), &toldOf{}
				this := fake.host()
				set := settings{config: defaultConfig(), node: cluster.Node, reconcile: 5 * time.Minute, dryRun: tc.dryRun}
				a := newAgent(set, server.Source(), sink, this, fake, klog.Logger{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- a.work(ctx) }()
				time.Sleep(4 * time.Minute)
				require.Equal(t, tc.told, sink.all())
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}
