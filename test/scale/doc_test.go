// Package scale measures what events cost in large clusters.
package scale
