package mail

// A HostRecord is something to be kept about a host. What keeps it knows
// neither what the key names nor what the value says, only that a value
// replaces the earlier one of its key.
type HostRecord struct {
	Key, Value []byte // an empty Value means that there is nothing to be kept any more
}
