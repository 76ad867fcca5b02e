// Package conformance runs the conformance suite of sigs.k8s.io/network-policy-api,
// unmodified, against the agent: a real kube-apiserver and etcd, agents on simulated
// Windows nodes, and stand-ins for what else a cluster has. They make the pods of the
// suite's StatefulSets and play the kubelet, which answers exec of "agnhost connect"
// with the verdict of the simulator's packet tracer.
//
// On the same stand-ins, cyclonus plays what Kubernetes' own suite asks of NetworkPolicies,
// unmodified as well.
//
// make conformance runs both. It is a module of its own, for the suites' dependencies.
package conformance
