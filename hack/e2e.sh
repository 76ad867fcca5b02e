#!/usr/bin/env bash
# Builds a real API server, its store and the agent, and runs the end-to-end
# suite. Arguments go to "go test": hack/e2e.sh -run TestRestart -v
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(hack/e2e-build.sh)
say() { echo "e2e: $*" >&2; }

say "building npm and the suite"
go build -o "$bin/npm" ./cmd/npm
cd test/e2e
go vet ./...

say "running the suite"
NPM_E2E_BIN=$bin go test -count=1 -timeout 6m "$@" ./...
