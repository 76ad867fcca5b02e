// Package simulate implements `kubectl npm simulate`. It runs the whole agent, informers included, on
// the simulator instead of Windows.
//
// Objects come from manifests or from a live cluster. node plays the kubelet
// and the CNI, so that every local pod has an endpoint. The result is the content of
// the simulated HNS, with the verdicts of its packet tracer.
package simulate
