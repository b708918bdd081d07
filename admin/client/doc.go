// Package client talks to the admin API of a Posthaste that runs on the same
// machine, over its Unix socket. It follows the pages and waits when the server is
// busy, so that callers see one list and one order.
package client
