#!/usr/bin/env bash
# Builds and vets everything for Windows and compiles its tests, on any system.
# Nothing is run: -exec=true puts the program true in place of each test.
set -euo pipefail
cd "$(dirname "$0")/.."

export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
go build ./...
go vet ./...
go test -exec=true ./...
