#!/usr/bin/env bash
# Counts the functions that one event runs in the agent (test/path); LIST=1 prints them.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
go build -cover -covermode=atomic -coverpkg=github.com/winnpm/winnpm/pkg/...,github.com/winnpm/winnpm/test/path -o "$program/path" ./test/path
GOCOVERDIR=$program "$program/path" ${LIST:+-list}
