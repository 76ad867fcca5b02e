package controllers

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestLightPod(t *testing.T) {
	f := fleet{pods: 1, workloads: 1}
	whole := f.pod(f.template(), 0)
	raw, err := whole.Marshal()
	require.NoError(t, err)
	light := &lightPod{}
	require.NoError(t, light.Unmarshal(raw))
	require.Equal(t, whole.Annotations, light.Annotations)
	require.Equal(t, whole.ResourceVersion, light.ResourceVersion)
	require.Empty(t, light.ManagedFields)
	require.Empty(t, light.Spec.Containers[0].Env)
	require.Empty(t, light.Spec.Volumes)
	require.Empty(t, light.Status.Conditions)

	text, err := json.Marshal(whole)
	require.NoError(t, err)
	light = &lightPod{}
	require.NoError(t, json.Unmarshal(text, light))
	want, is := PodFrom(whole, "node-000"), PodFrom(&light.Pod, "node-000")
	require.True(t, is.Same(&want), "from a server that speaks JSON")
}

// Whatever comes, a lightPod decodes as the Pod does, or not at all.
func TestLightPodOfBrokenMessages(t *testing.T) {
	raw, err := fullPod().Marshal()
	require.NoError(t, err)
	check := func(message []byte) {
		var light lightPod
		if light.Unmarshal(message) != nil {
			return
		}
		var whole corev1.Pod
		if whole.Unmarshal(message) != nil {
			return // it is broken in what nobody reads
		}
		want, is := PodFrom(&whole, "n1"), PodFrom(&light.Pod, "n1")
		require.True(t, is.Same(&want) && is.Key() == want.Key(), "%x", message)
	}
	for n := range raw {
		check(raw[:n])
		for _, bits := range []byte{1, 2, 8, 0x80, 0xff} {
			broken := bytes.Clone(raw)
			broken[n] ^= bits
			check(broken)
		}
	}
}

// Decoding a pod costs what is kept of it.
func BenchmarkDecodePod(b *testing.B) {
	f := fleet{pods: 1, workloads: 1}
	raw, err := f.pod(f.template(), 0).Marshal()
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func() error{
		"whole": func() error { return (&corev1.Pod{}).Unmarshal(raw) },
		"light": func() error { return (&lightPod{}).Unmarshal(raw) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
