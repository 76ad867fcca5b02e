package desired

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestObjectsAreCopiedOrShared: a pod that is set may be changed afterwards; one
// that is shared is in memory once.
func TestObjectsAreCopiedOrShared(t *testing.T) {
	own := Pod{Namespace: "x", Name: "own", UID: "1", Labels: map[string]string{"app": "a"}, Ports: []PodPort{{Name: "http"}}}
	shared := &Pod{Namespace: "x", Name: "shared", UID: "2", Labels: map[string]string{"app": "a"}}
	o := NewObjects()
	o.SetPod(own)
	o.SharePod(shared)
	own.Labels["app"], own.Ports[0].Name = "b", "https"
	d := newTestState()
	d.Stage(&o, time.Time{})
	kept := d.Pod(own.Key())
	require.Equal(t, map[string]string{"app": "a"}, kept.Labels)
	require.Equal(t, "http", kept.Ports[0].Name)
	require.Same(t, shared, d.Pod(shared.Key()).Pod)
}
