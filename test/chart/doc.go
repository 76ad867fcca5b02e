// Package chart tests that the chart in deploy/helm gives the objects of the manifests beside it.
package chart
