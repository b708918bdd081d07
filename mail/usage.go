package mail

// A Usage is a number of messages in the spool, and their content together in bytes.
type Usage struct{ Messages, Octets int64 }

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage { return Usage{u.Messages + v.Messages, u.Octets + v.Octets} }

// Minus returns the difference of two usages.
func (u Usage) Minus(v Usage) Usage { return Usage{u.Messages - v.Messages, u.Octets - v.Octets} }

// Waiting is the mail in the spool of a class, of a tenant, and of one of the tenant's flows
// in all classes, wherever it waits: incoming, deferred, held, corrupt or in delivery.
// Known is false, and the rest zero, as long as it is not counted.
type Waiting struct {
	Known               bool
	Class, Tenant, Flow Usage
}

// A CountLevel is for what messages are counted.
type CountLevel uint8

const (
	CountNothing CountLevel = iota
	CountTenants            // for each class and each tenant
	CountFlows              // and for each flow of a tenant
)
