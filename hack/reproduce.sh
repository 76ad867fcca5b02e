#!/usr/bin/env bash
# Copies the tree into two folders, makes a part of a release in each, and compares them
# byte for byte. One platform tells what all would: the same commands build the others.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export PLATFORMS=${PLATFORMS:-linux/amd64}
for folder in "$tmp/a" "$tmp/somewhere else/b"; do
	mkdir -p "$folder/tree"
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
		tar --create --null --files-from=- --ignore-failed-read 2>/dev/null | tar --extract --touch --directory "$folder/tree"
	"$folder/tree/hack/release.sh" v0.0.0-test "$folder/dist"
	sleep 2 # archives may count time in steps of two seconds
done
go -C hack/release test -count=1 ./...
diff -r "$tmp/a/dist" "$tmp/somewhere else/b/dist"
mkdir "$tmp/unpacked"
for archive in "$tmp"/a/dist/*_linux_amd64.tar.gz; do
	tar --extract --file "$archive" --directory "$tmp/unpacked"
	"$tmp/unpacked/winnpm" --version | grep -qx 'npm v0.0.0-test'
	"$tmp/unpacked/kubectl-npm" --version | grep -qx 'npm v0.0.0-test'
done
(cd "$tmp/a/dist" && sha256sum --check --strict --quiet SHA256SUMS)
echo "reproduce: $(find "$tmp/a/dist" -type f | wc -l) files for $PLATFORMS, equal in both folders"
