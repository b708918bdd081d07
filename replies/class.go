package replies

import "slices"

// A Class is the cause of a refusal, in the categories that operators of mail systems distinguish.
type Class uint8

// The classes. Log lines, views and configuration files have their names.
const (
	ClassNone            Class = iota // nothing was refused
	ClassOther                        // no pattern matches
	ClassNoSuchUser                   // the address does not exist
	ClassMailboxDisabled              // it exists, and takes no mail
	ClassMailboxFull                  // the recipient's quota is used up
	ClassRateLimited                  // too much or too fast, by whatever is counted
	ClassGreylisted                   // the first attempt is refused on purpose
	ClassReputation                   // our address, name or domain is not trusted, or is on a list
	ClassSpam                         // the message looks like spam or has malware
	ClassAuthentication               // SPF, DKIM, DMARC or reverse DNS are missing or wrong
	ClassPolicy                       // refused for a reason of the receiver's own
	ClassRelayDenied                  // the host does not take mail for the domain, or not from us
	ClassTooLarge                     // the message is larger than the receiver takes
	ClassContent                      // the form of the message: syntax, conversion, lines
	ClassTLS                          // encryption is missing or failed
	ClassDNS                          // a name could not be looked up, or does not exist
	ClassNetwork                      // no connection, or it was lost
	ClassServer                       // trouble at the receiver: storage, configuration, overload
	ClassProtocol                     // a command was not understood
	ClassLoop                         // the message has passed here before, or too many hosts

	// Classes is the number of classes, ClassNone among them.
	Classes = iota
)

var classNames = [Classes]string{
	"", "other", "no-such-user", "mailbox-disabled", "mailbox-full", "rate-limited", "greylisted", "reputation", "spam",
	"authentication", "policy", "relay-denied", "too-large", "content", "tls", "dns", "network", "server", "protocol", "loop",
}

// String returns the name; "" for ClassNone.
func (c Class) String() string { return classNames[c] }

// ClassNames returns the names of all classes that replies may have, ClassOther first.
func ClassNames() []string { return slices.Clone(classNames[ClassOther:]) }

// ParseClass returns the class of a name.
func ParseClass(name string) (c Class, ok bool) {
	i := slices.Index(classNames[:], name)
	return Class(max(i, 0)), i > 0
}
