#!/usr/bin/env bash
# Copies the tree into two folders, makes a part of a release in each, and compares them
# byte for byte. One platform tells what all would: the same commands build the others.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
first=$tmp/a
second="$tmp/somewhere else/b"
mkdir -p "$first/tree" "$second"
# As the tree is now, whether it is committed or not, but without what git ignores.
git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar --create --null --files-from=- | tar --extract --touch --directory "$first/tree"
cp -R "$first/tree" "$second/tree"

export PLATFORMS=${PLATFORMS:-linux/amd64}
"$first/tree/hack/release.sh" v0.0.0-test "$first/dist"
# The second is another person's, on another day.
(umask 077 && TZ=Asia/Tokyo GOFLAGS=-buildvcs=true "$second/tree/hack/release.sh" v0.0.0-test "$second/dist")
diff -r "$first/dist" "$second/dist"

(cd "$first/dist" && sha256sum --check --strict --quiet SHA256SUMS)
cli=$first/dist/winnpm_v0.0.0-test_$(go env GOHOSTOS)_$(go env GOHOSTARCH).tar.gz
if [ -f "$cli" ]; then
	tar --extract --file "$cli" --directory "$tmp"
	said=$("$tmp/kubectl-npm" --version)
	if [ "$said" != "kubectl npm v0.0.0-test" ]; then
		echo "reproduce: kubectl-npm --version says \"$said\"" >&2
		exit 1
	fi
fi
go -C hack/release test -count=1 ./...
# The image: on a base of the test, as that of Windows is in a registry elsewhere.
go -C hack/image test -count=1 ./...
echo "reproduce: $(find "$first/dist" -type f | wc -l) files for $PLATFORMS, equal in both folders"
