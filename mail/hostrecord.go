package mail

// A HostRecord is persistent data about a host. The store that keeps it does not
// interpret key or value; a value replaces the earlier value of its key.
type HostRecord struct {
	Key, Value []byte // an empty Value removes the record
}
