#!/usr/bin/env bash
# hack/exe.sh [DIR] builds the programs that docs/windows.md runs on a node, by default into
# bin: npm.exe, the doctor, contract.exe, which tests both, and the tests of what only Windows can tell.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${1:-bin}
mkdir -p "$dir"
export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
go build -o "$dir/npm.exe" ./cmd/npm
go build -o "$dir/doctor.exe" ./test/windows/doctor
go test -c -o "$dir/contract.exe" ./test/windows
go test -c -o "$dir/node.exe" ./pkg/node
