package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/agents"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// traces holds the answers to a question that names workloads, Services or named ports.
type traces struct {
	Verdict explain.Verdict  `json:"verdict"` // the worst
	Notes   []string         `json:"notes"`   // which pod represents which workload or Service
	Answers []explain.Answer `json:"answers"`
}

func (o *traceOptions) answers(ctx context.Context, std cli.Streams, a query) (traces, error) {
	if _, plain, _ := a.plain(); !plain && o.dump != "" {
		return traces{}, errors.New("a dump has no workloads, Services and port names: name a pod and a port number, or ask a cluster or manifests")
	}
	c, err := o.open(ctx, std)
	if err != nil {
		return traces{}, err
	}
	r, err := a.resolve(ctx, c)
	if err != nil {
		return traces{}, err
	}
	t := traces{Verdict: explain.Allowed, Notes: append([]string{}, r.notes...)}
	for _, q := range r.questions {
		answer, err := c.answer(ctx, q)
		if err != nil {
			return traces{}, err
		}
		t.Answers = append(t.Answers, answer)
		t.Verdict = explain.Worse(t.Verdict, answer.Verdict)
	}
	return t, nil
}

// write prints the answers. If there are several, it first prints the number of each verdict.
func (t traces) write(w io.Writer) error {
	var b bytes.Buffer
	count := map[explain.Verdict]int{}
	for _, a := range t.Answers {
		count[a.Verdict]++
	}
	if len(t.Answers) > 1 {
		fmt.Fprintf(&b, "%d of %d BLOCKED, %d UNKNOWN, %d ALLOWED\n", count[explain.Blocked], len(t.Answers), count[explain.Unknown], count[explain.Allowed])
	}
	for _, note := range t.Notes {
		fmt.Fprintln(&b, note)
	}
	for _, a := range t.Answers {
		if b.Len() > 0 {
			fmt.Fprintln(&b)
		}
		_ = a.WriteText(&b) // writing to a buffer does not fail
	}
	_, err := w.Write(b.Bytes())
	return err
}

// inManifests is the catalog of the objects in manifests.
type inManifests struct{ world cluster.World }

func (m inManifests) Pods(_ context.Context, namespace string) ([]cluster.Pod, error) {
	return slices.DeleteFunc(slices.Clone(m.world.Pods), func(p cluster.Pod) bool { return p.Namespace != namespace }), nil
}

func (m inManifests) Service(_ context.Context, namespace, name string) (*corev1.Service, error) {
	for _, s := range m.world.Services {
		if s.Namespace == namespace && s.Name == name {
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // nil means that it does not exist
}

// inCluster is the catalog of the objects in a live cluster.
type inCluster struct{ *agents.Cluster }

func (c inCluster) Pods(ctx context.Context, namespace string) (out []cluster.Pod, err error) {
	pods, err := c.Cluster.Pods(ctx, namespace)
	for i := range pods {
		out = append(out, cluster.PodOf(&pods[i], nil))
	}
	return out, err
}
