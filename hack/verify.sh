#!/usr/bin/env bash
# What reviewers should not have to see: unformatted files, an untidy go.mod,
# and, under CI, files that the run itself changed.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
unformatted=$(find . -name '*.go' -not -path './.cache/*' -exec gofmt -l {} +)
if [ -n "$unformatted" ]; then
	printf 'verify: not formatted, run gofmt -w on it: %s\n' $unformatted >&2
	failed=1
fi
for module in . test/e2e test/e2e/apiserver test/page test/conformance test/cni test/chart test/monitoring hack/tools/actionlint hack/release hack/image; do
	if ! go -C "$module" mod tidy -diff; then
		echo "verify: $module/go.mod or go.sum is not tidy, run go mod tidy there" >&2
		failed=1
	fi
done
if [ "${CI:-}" = true ]; then
	# .ci/run says in TREE_BEFORE what the tree was like before it started.
	now=$(git -c safe.directory='*' status --porcelain)
	if [ "$now" != "${TREE_BEFORE:-}" ]; then
		printf 'verify: the run changed the tree, git status now says:\n%s\n' "$now" >&2
		failed=1
	fi
fi
exit $failed
