// Package client talks to the admin API of a Posthaste: over its Unix socket on the same
// machine, or over the network with a token. It follows the pages and waits when the
// server is busy, so that callers see one list and one order.
package client
