#!/usr/bin/env bash
# Builds the agent's image and pushes it: hack/image.sh REGISTRY/NAME:TAG
# A Windows image cannot be loaded into a Linux Docker, so it goes to a registry
# or, with OUTPUT=type=oci,dest=npm.tar, into a file.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# != 1 ]; then
	echo "usage: hack/image.sh REGISTRY/NAME:TAG" >&2
	exit 2
fi
docker buildx build --platform windows/amd64 --provenance=false \
	--output "${OUTPUT:-type=registry}" --file deploy/Dockerfile --tag "$1" .
