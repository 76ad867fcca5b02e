#!/usr/bin/env bash
# Runs the conformance suite of sigs.k8s.io/network-policy-api against the agent, and what
# upstream asks of NetworkPolicies. Arguments go to "go test".
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(hack/e2e-build.sh)
cd test/conformance
# All of the suite has to pass: a test that is not there any more is missed, too.
if [ $# = 0 ]; then
	said=$(mktemp)
	trap 'rm -f "$said"' EXIT
	NPM_E2E_BIN=$bin go test -count=1 -v -timeout 10m ./... | tee "$said"
	tests=$(grep -c '^    --- PASS: TestConformance/' "$said" || true)
	subtests=$(grep -c '^        --- PASS: TestConformance/' "$said" || true)
	echo "conformance: $tests of 24 tests, $subtests of 92 subtests passed"
	[ "$tests $subtests" = "24 92" ]
else
	NPM_E2E_BIN=$bin go test -count=1 -v -timeout 10m "$@" .
fi
