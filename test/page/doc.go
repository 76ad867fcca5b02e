// Package page looks at the page of the debug endpoint in a real Chromium: it
// runs kubectl npm simulate, and does what a person does, with mouse and keyboard. No
// test may leave an error in the console or a request that failed.
//
// "make page" builds and runs it. Pictures of what it saw go to
// WINNPM_SCREENSHOTS.
package page
