#!/usr/bin/env bash
# Runs the conformance suite of sigs.k8s.io/network-policy-api against the agent, what
# upstream asks of NetworkPolicies, and the tests of what both run on. Arguments go to "go test".
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(hack/e2e-build.sh)
cd test/conformance
# All of the suite has to pass: a test that is not there any more is missed, too.
if [ $# = 0 ]; then
	NPM_E2E_BIN=$bin go test -count=1 -v -timeout 10m ./... | go run ./cmd/tally -tests 24 -subtests 92
else
	NPM_E2E_BIN=$bin go test -count=1 -v -timeout 10m "$@" .
fi
