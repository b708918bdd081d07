package mail

// A Flow is to whom a message counts where capacity is shared: its class, within
// that its tenant, and within that its flow. It is found once, when the message is
// accepted, and kept with it, so that a later configuration does not move mail that
// waits. The zero Flow means that the message was not classified: a version of this
// program accepted it that did not do so yet.
//
// The texts are valid UTF-8 without white space and control characters, and no longer
// than ClassMax, TenantMax and FlowMax.
type Flow struct {
	Class  string // a name of the configuration, such as "normal" or "bulk"
	Tenant string // a name of the configuration, or the client's network, or its user
	Flow   string // what the sender sends under one name; "<>" is the null sender's mail
}

// The largest lengths of the texts of a Flow, in bytes.
const (
	ClassMax  = 64
	TenantMax = 128
	FlowMax   = 256
)
