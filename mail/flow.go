package mail

// A Flow says whose mail a message is: what is scarce is shared among classes by their
// weights, among the tenants of a class, and among the flows of a tenant. The zero value is
// a message that was not classified, as in spools of versions that knew no flows.
type Flow struct {
	Class  string // a class of the configuration, or "normal" or "bulk"
	Tenant string // who has it sent: a tenant of the configuration, a user, a network
	Flow   string // which of the tenant's mail it is: the sender without its extension
}
