// Package simulate is `kubectl npm simulate`: the whole program, informers included, on
// the simulator instead of Windows.
//
// Objects come from manifests or from a live cluster. node plays the kubelet
// and the CNI, so that every local pod has an endpoint. What is printed is what
// is in the simulated HNS, and verdicts are those of its packet tracer.
package simulate
