#!/usr/bin/env bash
# Succeeds when the race detector can be built: it needs cgo, so a C compiler
# with the headers of the C library.
set -euo pipefail

[ "$(go env CGO_ENABLED)" = 1 ] || exit 1
read -ra cc <<<"$(go env CC)"
printf '#include <stdlib.h>\nint main(void) { return 0; }\n' |
	"${cc[@]}" -x c -o /dev/null - >/dev/null 2>&1
