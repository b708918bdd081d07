package cluster

import "errors"

// Errors of the ports; what is returned wraps one of them, with the operation.
var (
	// ErrUnreachable: no answer before the context ended, or no connection. A change
	// may have been made.
	ErrUnreachable = errors.New("cluster cannot be reached")
	// ErrNotFound: there is no such key, or its TTL is over.
	ErrNotFound = errors.New("no such key")
	// ErrExists: Create found the key.
	ErrExists = errors.New("key exists")
	// ErrConflict: the key has another revision, or is gone.
	ErrConflict = errors.New("key was changed by another node")
	// ErrFull: the bucket or the disk of the store has no room.
	ErrFull = errors.New("no room in the cluster's store")
	// ErrInvalid: a name, a size or a TTL is outside of what the ports accept.
	ErrInvalid = errors.New("not accepted by the cluster's store")
	// ErrClosed: the node, the watcher or the subscription was closed here.
	ErrClosed = errors.New("closed")
	// ErrLagged is the cause of a Stale event: the watcher was too slow.
	ErrLagged = errors.New("the watcher was too slow")
)
