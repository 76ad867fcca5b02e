#!/usr/bin/env bash
# Builds a real API server, its store and the agent, and runs the end-to-end
# suite. Arguments go to "go test": hack/e2e.sh -run TestServerAway
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(hack/e2e-build.sh)
say() { echo "e2e: $*" >&2; }

say "building npm, kubectl-npm and the suite"
go build -o "$bin/" ./cmd/npm ./cmd/kubectl-npm
go build -o "$bin/" ./test/simnode

say "running the suite"
cd test/e2e
# What waits for a deadline waits at the same time, however few the cores.
NPM_E2E_BIN=$bin go test -count=1 -v -timeout 6m -parallel 8 "$@" ./...
