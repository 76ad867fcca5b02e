#!/usr/bin/env bash
# hack/apt.sh SAYS NEEDED PACKAGE... installs packages of Debian or Ubuntu for the script
# that SAYS names: as root, or in CI with a sudo that asks nobody. Otherwise it says that
# NEEDED is needed, and how to get it.
set -euo pipefail

says=$1 needed=$2
shift 2
become=()
if [ "$(id -u)" != 0 ]; then
	# Nobody's own machine is changed without being asked.
	if [ "${CI:-}" = true ] && sudo -n true 2>/dev/null; then
		become=(sudo -n)
	else
		echo "$says: needed: $needed; as root, apt-get install --no-install-recommends $*" >&2
		exit 1
	fi
fi
if ! command -v apt-get >/dev/null; then
	echo "$says: needed: $needed; there is no apt-get here to install $* with" >&2
	exit 1
fi
echo "$says: installing $*" >&2
{
	"${become[@]}" apt-get update
	"${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
} >&2
