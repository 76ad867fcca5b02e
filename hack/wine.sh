#!/usr/bin/env bash
# hack/wine.sh PREFIX_DIR prepares a Wine prefix in which Windows programs of
# this repository find an HNS: the DLLs of test/windows/dll, which forward to
# the server that HNSD_ADDR names. Prints the path of wine64, nothing else.
#
# Run a program with WINEPREFIX=PREFIX_DIR WINEDEBUG=-all and, for quick starts,
# WINEDLLOVERRIDES=mscoree,mshtml=. Wine keeps a wineserver in the background;
# end it with WINEPREFIX=PREFIX_DIR wineserver -k (Debian keeps that program as
# /usr/lib/wine/wineserver64, beside wine64).
set -euo pipefail
say() { echo "wine: $*" >&2; }

[ $# -eq 1 ] || { say "usage: hack/wine.sh PREFIX_DIR"; exit 2; }
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
packages=(wine64 gcc-mingw-w64-x86-64)
cc=x86_64-w64-mingw32-gcc

# find_wine prints the path of wine64, which Debian keeps out of PATH.
find_wine() {
	local candidate
	for candidate in "$(command -v wine64 || true)" /usr/lib/wine/wine64 /opt/wine-*/bin/wine64; do
		if [ -x "$candidate" ]; then
			echo "$candidate"
			return
		fi
	done
	return 1
}

if ! find_wine >/dev/null || ! command -v "$cc" >/dev/null; then
	hack/apt.sh wine "wine64 and $cc" "${packages[@]}"
fi
wine=$(find_wine) || { say "the package wine64 brought no wine64"; exit 1; }

# The DLLs are built once for every content of their folder.
src=test/windows/dll
key=$({ "$cc" --version; cat hack/wine.sh "$src"/*; } | sha256sum | cut -c1-16)
dlls=.cache/windows/$key
if [ ! -d "$dlls" ]; then
	mkdir -p .cache/windows
	find .cache/windows -mindepth 1 -maxdepth 1 -mmin +60 -exec rm -rf {} +
	build=$(mktemp -d .cache/windows/build.XXXXXX)
	flags=(-shared -O2 -Wall -Wextra -Werror)
	"$cc" "${flags[@]}" -o "$build/computenetwork.dll" $src/computenetwork.c $src/hnsd.c -lws2_32 -lole32 >&2
	"$cc" "${flags[@]}" -o "$build/vmcompute.dll" $src/vmcompute.c $src/hnsd.c -lws2_32 -lole32 >&2
	"$cc" "${flags[@]}" -o "$build/bcryptprimitives.dll" $src/bcryptprimitives.c -ladvapi32 >&2
	# Somebody else may have been faster.
	mv -T "$build" "$dlls" 2>/dev/null || rm -rf "$build"
fi

# Output goes to a file: what Wine leaves in the background would keep the pipe
# of whoever reads ours open.
if [ ! -f "$prefix/.update-timestamp" ]; then
	WINEPREFIX=$prefix WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" \
		"$wine" wineboot -i >"$prefix/wineboot.log" 2>&1 </dev/null ||
		{ say "wineboot failed:"; cat "$prefix/wineboot.log" >&2; exit 1; }
fi
cp --remove-destination "$dlls"/*.dll "$prefix/drive_c/windows/system32/"
echo "$wine"
