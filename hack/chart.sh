#!/usr/bin/env bash
# Builds Helm and kustomize, as test/chart pins them, and compares what they make of the chart
# in deploy/helm and of the manifests beside it. Arguments go to "go test": hack/chart.sh -run TestSame
set -euo pipefail
cd "$(dirname "$0")/../test/chart"

# Two minutes of two cores when nothing of it is compiled yet, and seconds after that.
go test -count=1 -v -timeout 10m "$@" ./...
