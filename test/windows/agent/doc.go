// Package agent proves npm.exe end to end: the Windows binary runs under Wine,
// reads a real API server, and writes to an HNS that is this process, so that
// the suite sees every call and every rule. It only has tests;
// hack/test-windows.sh builds what they need and runs them.
package agent
