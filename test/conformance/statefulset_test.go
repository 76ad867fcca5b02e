package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// playStatefulSets makes the pods of StatefulSets, once each, until the test ends. It
// asks for them a few times a second, as there are five.
func (c *cluster) playStatefulSets() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.statefulSets(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		require.NoError(c.t, <-ended)
	})
}

func (c *cluster) statefulSets(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		sets, err := kube.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range sets.Items {
			if s := &sets.Items[i]; s.Status.Replicas == 0 {
				if err := c.statefulSet(ctx, s); err != nil {
					return fmt.Errorf("stateful set %s/%s: %w", s.Namespace, s.Name, err)
				}
			}
		}
	}
}

// statefulSet makes the pods of one and says that they are ready.
func (c *cluster) statefulSet(ctx context.Context, s *appsv1.StatefulSet) error {
	if err := account(ctx, s.Namespace); err != nil {
		return err
	}
	for i := range int(*s.Spec.Replicas) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, i), Labels: s.Spec.Template.Labels},
			Spec:       *s.Spec.Template.Spec.DeepCopy(),
		}
		if err := c.runPod(ctx, pod, i); err != nil {
			return err
		}
	}
	s.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: s.Generation, Replicas: *s.Spec.Replicas, ReadyReplicas: *s.Spec.Replicas,
		CurrentReplicas: *s.Spec.Replicas, UpdatedReplicas: *s.Spec.Replicas, AvailableReplicas: *s.Spec.Replicas,
	}
	_, err := kube.AppsV1().StatefulSets(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
	return err
}

// account gives a namespace the ServiceAccount without which it takes no pods.
func account(ctx context.Context, namespace string) error {
	_, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
