// Package peercred finds out which user is at the other end of a unix socket.
package peercred
