#!/usr/bin/env bash
# hack/release/krew.sh VERSION ARCHIVE... prints the manifest of kubectl-npm for krew, kubectl's
# plugin manager, with an entry for each archive winnpm_VERSION_OS_ARCH.tar.gz.
set -euo pipefail
version=$1
shift
cat <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: npm
spec:
  version: $version
  homepage: https://github.com/winnpm/winnpm
  shortDescription: Explain network policies on Windows nodes
  description: |
    Explains why a connection from or to a pod on a Windows node is allowed or
    blocked, and which connections a policy would change before you
    apply it. It asks the agents of WinNPM through the API server, with
    your rights, and changes nothing.
  caveats: |
    To ask agents you need the right to forward ports to their pods:
    https://github.com/winnpm/winnpm/blob/$version/docs/operations.md#why-is-it-blocked
  platforms:
END
for archive in "$@"; do
	name=$(basename "$archive" .tar.gz)
	platform=${name#"winnpm_${version}_"}
	exe=
	[ "${platform%_*}" != windows ] || exe=.exe
	cat <<END
  - selector:
      matchLabels:
        os: ${platform%_*}
        arch: ${platform#*_}
    uri: https://github.com/winnpm/winnpm/releases/download/$version/$(basename "$archive")
    sha256: $(sha256sum "$archive" | cut -d ' ' -f 1)
    bin: kubectl-npm$exe
    files:
    - from: kubectl-npm$exe
      to: .
    - from: LICENSE
      to: .
END
done
