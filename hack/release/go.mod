// Module release packs what hack/release.sh built. It is a module of its own, so that
// nothing of it is linked into WinNPM.
module github.com/winnpm/winnpm/hack/release

go 1.26.8

require github.com/CycloneDX/cyclonedx-go v0.12.0
