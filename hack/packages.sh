#!/usr/bin/env bash
# Lists the packages of the root module of which a test imports a package.
set -euo pipefail
cd "$(dirname "$0")/.."

go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}} ' ./... |
	awk -v wanted=" $1 " 'index($0, wanted) {print $1}'
