#!/usr/bin/env bash
# Plays every scenario with a disturbance at every call of HNS, in every order,
# and CHECKS (2000) random histories, and as many on an HNS with a random
# personality; arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

WINNPM_EFFORT=full go test -count=1 -timeout=60m -v ./test/torture "$@" -rapid.checks="${CHECKS:-2000}"
