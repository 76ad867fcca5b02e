#!/usr/bin/env bash
# Holds the alerts and the dashboard of deploy/monitoring against Prometheus' own parsers and
# engine, and against what an agent writes. Arguments go to "go test".
set -euo pipefail
cd "$(dirname "$0")/../test/monitoring"

go test -count=1 -timeout 5m "$@" ./...
