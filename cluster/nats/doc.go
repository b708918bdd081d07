// Package nats has the ports of package cluster on NATS JetStream, either on a server
// in this process, which is connected with those of the other nodes, or on servers
// that are there already.
//
// It is the only package that imports NATS. A program that does not call Start has the
// code of NATS, but no goroutine, port, file or memory of it.
//
// # The server in the process
//
// It opens one port, that of the routes between the nodes, with mutual TLS, and no
// port for clients: the node's own connection is a pipe. It handles no signals, exits
// never, and logs through slog; its notices have the level Debug there. It has a file
// store with limits on disk and memory. Start resets the process's block profile
// (runtime.SetBlockProfileRate), which is off in any case; nothing else of the process
// is touched. A store directory belongs to one process; the server does not lock it.
//
// # The store
//
// A bucket is a stream with one message for each subject, laid out as the key-value
// stores of NATS clients, so that its tools can show it: "$KV.CLUSTER_BUCKET.KEY" in
// the stream "KV_CLUSTER_BUCKET". These clients' own API is not used: its Get asks any
// replica, and so returns old values more often; its Update takes the TTL away, so that
// a lease would never expire; and its watcher keeps whatever does not fit into its
// queue in memory, without a limit.
//
//   - A change is a publication that names the revision it expects, and the TTL.
//   - Create, after a key that is gone, expects the revision of the marker.
//   - Get asks the leader of the stream, which may have been deposed without knowing.
//   - Delete replaces the key by a marker with a TTL of its own, and the server does
//     the same where a TTL ends.
//   - A watcher is a consumer from which at most prefetch messages are pulled. If its
//     connection is lost, its heartbeats stop or a number is missing, the watcher is
//     stale, and another consumer begins with the last message of each subject.
//
// A confirmed change is in the page caches of a majority; files are synced every ten
// seconds. So it survives the death of any processes, and the loss of power on a
// minority of the machines.
//
// # When the cluster cannot be reached
//
// Connecting, joining and rejoining happen in the background, with pauses of at most two
// seconds. Calls are made in goroutines of their own, at most callsMax at a time, so a
// connection that takes no bytes holds up no caller longer than its context. Nothing
// is kept to be sent later.
package nats
