// Package monitoring has tests alone: of the alerts, the scraping and the dashboard in
// deploy/monitoring.
package monitoring
