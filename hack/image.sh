#!/usr/bin/env bash
# Makes the agent's image, without Windows and without a daemon:
# hack/image.sh REGISTRY/NAME:TAG pushes it, with the credentials of "docker login", and
# hack/image.sh FILE.tar writes it into a file. PROGRAMS is a folder with npm.exe and
# winnpm-cni.exe, such as dist after "make release"; without it they are built from these sources.
# BASE_IMAGE names another base, by digest. VERSION goes into the labels.
set -euo pipefail

if [ $# != 1 ] || [ -z "$1" ]; then
	echo "usage: hack/image.sh REGISTRY/NAME:TAG, or hack/image.sh FILE.tar; make image TO=..." >&2
	exit 2
fi
to=$1
case $to in
*.tar) to=$(cd "$(dirname "$to")" && pwd)/$(basename "$to") ;;
esac
programs=${PROGRAMS:+$(cd "$PROGRAMS" && pwd)}
cd "$(dirname "$0")/.."

# mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0, as Azure's own
# images name it (Azure/azure-container-networking, cns/Dockerfile). docs/operations.md says how to look.
base=${BASE_IMAGE:-mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image@sha256:b4c9637e032f667c52d1eccfa31ad8c63f1b035e8639f3f48a510536bf34032b}
version=${VERSION:-}
if [ -z "$programs" ]; then
	programs=$(mktemp -d)
	trap 'rm -rf "$programs"' EXIT
	# Without VERSION they bear what git says of the tree (npm version, npm_build_info).
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -ldflags "-s -w${version:+ -X github.com/winnpm/winnpm/pkg/cli.release=$version}" -o "$programs/" ./cmd/npm ./cmd/winnpm-cni
fi
go run -C hack/image . -base "$base" -programs "$programs" -version "$version" -to "$to"
sums=$(dirname "$to")/SHA256SUMS
if [ "${to%.tar}" != "$to" ] && [ -f "$sums" ]; then
	(cd "$(dirname "$to")" && sha256sum "$(basename "$to")" >>SHA256SUMS)
fi
