// Package windows has tests for a Windows node (NPM_HNS=1), and for Wine, where hnsd answers by way of
// the DLLs in dll (HNSD_ADDR). TestReads compares what the adapter and hcsshim read, TestAgent has
// npm.exe program a network of the contract suite, and TestPackets sends packets between containers.
package windows
