package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/cluster"
)

// ownedPod is the text of a pod of a workload.
func ownedPod(name, kind, owner, app string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: x, labels: {app: %s}, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: u, controller: true}]}}\n", name, app, kind, owner)
}

func warningsOf(c cluster.Change) (out []string) {
	for _, w := range c.Warnings {
		out = append(out, fmt.Sprintf("%s %s %s: %s", w.Reason, w.Kind, w.Object, w.Message))
	}
	return out
}

// TestOwnersInText: where the text has the Job, that says whether a CronJob has made it, whatever
// its name looks like.
func TestOwnersInText(t *testing.T) {
	job := func(name, owner string) string {
		return strings.Replace(object("Job", name, "spec: {template: {}}"), "namespace: x", "namespace: x"+owner, 1)
	}
	ofCron := ", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: u, controller: true}]"
	w := worldOf(t, job("alone-29384720", "")+job("hand-made", ofCron)+object("CronJob", "nightly", "spec: {jobTemplate: {spec: {template: {}}}}"))
	require.Len(t, w.Pods, 2)
	require.Equal(t, []string{"Job x/alone-29384720"}, w.Pods[0].Owners)
	require.Equal(t, []string{"Job x/hand-made", "CronJob x/nightly"}, w.Pods[1].Owners)
}

// TestPodOfNone: a new pod of a workload that has pods enough does not live, which is said.
func TestPodOfNone(t *testing.T) {
	w := worldOf(t, namespace("x", ""))
	text := ownedPod("web-7", "Deployment", "web", "a") + made("Deployment", "web", "0", "a")
	change := applied(t, w, text, cluster.ChangeOptions{})
	require.Empty(t, change.After.Pods)
	require.Equal(t, []string{"NotPlanned Pod x/web-7: it is one more than Deployment x/web is to have, which deletes it at once, so its connections are not counted; take it out, or have that make more pods"}, warningsOf(change))
	// One that was there goes with the others.
	change = applied(t, worldOf(t, ownedPod("web-7", "Deployment", "web", "a")), text, cluster.ChangeOptions{})
	require.Empty(t, change.After.Pods)
	require.Empty(t, change.Warnings)
}

// TestNoneOfACluster: nobody lists the workloads of a cluster, so one that has no pod before and
// after is not said to be new.
func TestNoneOfACluster(t *testing.T) {
	w := worldOf(t, namespace("x", ""))
	w.FromManifests, w.Makers = false, nil
	for count, want := range map[string]string{"0": "unchanged", "1": "new"} {
		change := applied(t, w, made("Deployment", "web", count, "a"), cluster.ChangeOptions{})
		require.Equal(t, want, change.Objects[0].Change)
	}
}
