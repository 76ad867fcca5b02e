package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// quiet is how long what agents read must have been the same before a verdict counts:
// some times what an agent takes for a change, on a busy machine. Without it a test
// that expects what was before could pass by what was before.
const quiet = 300 * time.Millisecond

// observed are the kinds that agents read.
var observed = []schema.GroupVersionResource{
	{Version: "v1", Resource: "namespaces"},
	{Version: "v1", Resource: "nodes"},
	{Version: "v1", Resource: "pods"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"},
}

// settled waits until what agents read has been the same for some time. It looks
// itself, so the time starts with the first call after a change.
func (c *cluster) settled(ctx context.Context) error {
	lister, err := metadata.NewForConfig(admin)
	if err != nil {
		return err
	}
	for {
		have, err := versions(ctx, lister)
		if err != nil {
			return err
		}
		left := c.unchanged(have)
		if left <= 0 {
			return nil
		}
		wait := time.NewTimer(left)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
}

// unchanged notes a state and returns how much of quiet is left.
func (c *cluster) unchanged(state string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != c.seen {
		c.seen, c.at = state, time.Now()
	}
	return quiet - time.Since(c.at)
}

// versions says what there is, and its versions.
func versions(ctx context.Context, lister metadata.Interface) (string, error) {
	var all strings.Builder
	for _, kind := range observed {
		list, err := lister.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			fmt.Fprintln(&all, list.Items[i].UID, list.Items[i].ResourceVersion)
		}
	}
	return all.String(), nil
}
