#!/usr/bin/env bash
# hack/release.sh VERSION [DIR] builds what a release has into DIR, by default dist. The
# same sources give the same bytes, wherever they are: docs/release.md says what is in it.
# PLATFORMS names those of kubectl-npm, such as "linux/amd64"; windows/amd64 has what a node runs, too.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-}
dist=${2:-dist}
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
if ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "release: say which version, such as VERSION=v0.1.0, not \"$version\"" >&2
	exit 2
fi
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
if [ -n "$(ls -A "$dist")" ]; then
	echo "release: $dist is not empty; its files would get among those of the release" >&2
	exit 1
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

# What else decides about the bytes: the version of Go, and what a person may have set.
GOTOOLCHAIN=go$(awk '$1 == "go" { print $2 }' go.mod)
export GOTOOLCHAIN GOFLAGS="-trimpath -buildvcs=false -mod=readonly" GOWORK=off
export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOFIPS140=off
ldflags="-s -w -X github.com/winnpm/winnpm/pkg/cli.release=$version"
for platform in $platforms; do
	echo "release: $platform" >&2
	to=$built/$platform
	mkdir -p "$to"
	export GOOS=${platform%/*} GOARCH=${platform#*/}
	if [ "$GOOS" = windows ]; then
		go build -ldflags "$ldflags" -o "$to/npm.exe" ./cmd/npm
		go build -ldflags "$ldflags" -o "$to/winnpm-cni.exe" ./cmd/winnpm-cni
		go build -ldflags "-s -w" -o "$to/doctor.exe" ./test/windows/doctor
		go test -c -ldflags "$ldflags" -o "$to/contract.exe" ./test/windows
	fi
	go build -ldflags "$ldflags" -o "$to/" ./cmd/kubectl-npm
done
unset GOOS GOARCH

boms=()
for platform in $platforms; do
	folder=$built/$platform
	tool=kubectl-npm
	if [ "${platform%/*}" = windows ]; then
		tool=kubectl-npm.exe
		for program in npm winnpm-cni doctor contract; do
			install -m 644 "$folder/$program.exe" "$dist/"
			boms+=("$dist/$program.exe=$folder/$program.exe")
		done
	fi
	install -m 644 LICENSE "$folder/"
	archive=$dist/winnpm_${version}_${platform%/*}_${platform#*/}.tar.gz
	chmod 755 "$folder/$tool"
	tar --create --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
		--directory "$folder" LICENSE "$tool" | gzip --no-name --best >"$archive"
	boms+=("$archive=$folder/$tool")
done
go run -C hack/release . -version "$version" "${boms[@]}"
hack/release/krew.sh "$version" "$dist"/*.tar.gz >"$dist/npm.krew.yaml"
cd "$dist"
sums=$(sha256sum -- *)
echo "$sums" >SHA256SUMS
