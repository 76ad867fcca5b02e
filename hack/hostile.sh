#!/usr/bin/env bash
# Attacks the agent as one tenant can: every row, every two of them, and floods of all
# sizes; arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

WINNPM_EFFORT=full go test -count=1 -timeout=120m -v ./test/hostile "$@"
