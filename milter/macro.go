package milter

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A stage is a point of the conversation at which macros are sent, numbered as in the protocol.
type stage uint8

const (
	stageConnect stage = iota
	stageHelo
	stageMail
	stageRcpt
	stageData
	stageEnd
	stageEOH
	stages
)

// usual are the macros of a stage of which a milter has not said what it wants.
var usual = [stages]string{
	stageConnect: "j {daemon_name} {daemon_addr} {daemon_port} v _ {client_name} {client_addr} {client_port} {client_ptr} {if_name} {if_addr}",
	stageHelo:    "{tls_version} {cipher} {cipher_bits}",
	stageMail:    "i {auth_type} {auth_authen} {auth_author} {mail_mailer} {mail_host} {mail_addr}",
	stageRcpt:    "{rcpt_mailer} {rcpt_host} {rcpt_addr}",
	stageData:    "i",
	stageEnd:     "i",
	stageEOH:     "i",
}

// Facts are the facts about a client that are known at MAIL.
type Facts struct {
	Client     netip.AddrPort // not valid: a program of this machine; port 0: not known
	ClientName string         // "" if it is not known
	Server     netip.AddrPort // that the client has connected to; not valid: a unix socket
	Listener   string         // its name
	Helo       string
	TLSVersion string // such as "TLSv1.3"; "" without TLS
	Cipher     string
	User       string // that has logged in; "" if none has
	Mechanism  string
	ID         mail.QueueID // of the message
}

// localClient is the client address that milters get for a program of this machine, as in Postfix:
// they sign mail of such clients.
var localClient = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)

// peer returns the client as milters know it.
func (f *Facts) peer() (name string, at netip.AddrPort) {
	if !f.Client.IsValid() {
		return "localhost", localClient
	}
	at = netip.AddrPortFrom(f.Client.Addr().Unmap().WithZone(""), f.Client.Port())
	if f.ClientName == "" {
		return "unknown", at // as Postfix says of a client whose name is not known
	}
	return f.ClientName, at
}

// An occasion has the values of macros that depend on the command.
type occasion struct {
	*Facts
	host      *Host
	daemon    string // the milter's Config.DaemonName
	sender    mail.Address
	recipient mail.Address
}

// value returns the value of a macro; ok is false if there is none.
func (o *occasion) value(name string) (value string, ok bool) {
	client, at := o.peer()
	switch name {
	case "j":
		value = o.host.Hostname
	case "v":
		value = o.host.Version
	case "i":
		if o.ID != 0 {
			value = o.ID.String()
		}
	case "_":
		value = client + " [" + at.Addr().String() + "]"
	case "{daemon_name}":
		if value = o.daemon; value == "" {
			value = o.Listener
		}
	case "{daemon_addr}", "{if_addr}":
		if o.Server.IsValid() {
			value = o.Server.Addr().Unmap().String()
		}
	case "{daemon_port}":
		if o.Server.IsValid() {
			value = strconv.Itoa(int(o.Server.Port()))
		}
	case "{if_name}":
		value = o.host.Hostname
	case "{client_name}", "{client_ptr}":
		value = client
	case "{client_addr}":
		value = at.Addr().String()
	case "{client_port}":
		value = strconv.Itoa(int(at.Port()))
	case "{tls_version}":
		value = o.TLSVersion
	case "{cipher}":
		value = o.Cipher
	case "{cipher_bits}":
		value = bitsOf(o.Cipher)
	case "{auth_type}":
		value = o.Mechanism
	case "{auth_authen}":
		value = o.User
	case "{mail_mailer}", "{rcpt_mailer}":
		return "smtp", true
	case "{mail_addr}":
		return string(o.sender), true // the null sender's is empty
	case "{mail_host}":
		value = o.sender.Domain()
	case "{rcpt_addr}":
		value = string(o.recipient)
	case "{rcpt_host}":
		value = o.recipient.Domain()
	}
	return value, value != ""
}

// bitsOf returns the length of a cipher's key, by its name in the registry of IANA.
func bitsOf(cipher string) string {
	switch {
	case cipher == "":
		return ""
	case strings.Contains(cipher, "AES_128"):
		return "128"
	case strings.Contains(cipher, "AES_256"), strings.Contains(cipher, "CHACHA20"):
		return "256"
	}
	return ""
}

// appendMacros appends the macros of a stage for a command, nothing if none has a value.
func (g *agreement) appendMacros(b []byte, command byte, s stage, o *occasion) []byte {
	names := usual[s]
	if g.chosen[s] {
		names = g.macros[s]
	}
	start := len(b)
	b, at := beginPacket(b, cmdMacro)
	b = append(b, command)
	empty := len(b)
	for name := range strings.FieldsSeq(names) {
		value, ok := o.value(name)
		if !ok && len(name) > 1 && name[0] != '{' { // some ask for them without braces
			value, ok = o.value("{" + name + "}")
		}
		if ok {
			b = appendText(appendText(b, name), value)
		}
	}
	if len(b) == empty {
		return b[:start]
	}
	return endPacket(b, at)
}
