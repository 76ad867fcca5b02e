//go:build !windows

package main

import "context"

// underManager runs the program under the service manager if that started it.
func underManager(ctx context.Context, program func(context.Context) int) int { return program(ctx) }
