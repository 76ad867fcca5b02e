#!/usr/bin/env bash
# Builds the agent's image and pushes it: hack/image.sh REGISTRY/NAME:TAG
# GO_IMAGE and BASE_IMAGE name what it is built from, by digest if need be.
# A Windows image cannot be loaded into a Linux Docker, so it goes to a registry
# or, with OUTPUT=type=oci,dest=npm.tar, into a file.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# != 1 ]; then
	echo "usage: hack/image.sh REGISTRY/NAME:TAG" >&2
	exit 2
fi
args=()
for name in GO_IMAGE BASE_IMAGE; do
	if [ -n "${!name:-}" ]; then
		args+=(--build-arg "$name=${!name}")
	fi
done
docker buildx build --platform windows/amd64 --provenance=false "${args[@]}" \
	--output "${OUTPUT:-type=registry}" --file deploy/Dockerfile --tag "$1" .
