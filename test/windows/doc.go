// Package windows runs the contract of hns.Client through the real adapter: on a
// Windows node against HNS itself (NPM_HNS=1), and under Wine against hnsd by way
// of the DLLs in dll (HNSD_ADDR). It makes a network of its own with hcsshim, a
// second voice, and takes it away again. TestAgent has npm.exe program that network, and
// TestPackets sends packets between containers.
package windows
