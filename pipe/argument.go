package pipe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A macro is something of a delivery that an argument may contain.
type macro uint8

const (
	macroNone macro = iota
	macroSender
	macroNexthop
	macroSize
	macroQueueID
	macroRecipient // this one and those that follow are different for each recipient
	macroOriginal
	macroUser
	macroExtension
	macroMailbox
	macroDomain
)

// macroNames are the names of macros in braces.
func macroNames() []string {
	return []string{"", "sender", "nexthop", "size", "queue_id", "recipient", "original_recipient", "user", "extension", "mailbox", "domain"}
}

// A piece of an argument is literal text, and the macro behind it.
type piece struct {
	text  string
	macro macro
}

// An Argument is one argument of a program with its macros.
type Argument struct {
	pieces []piece
}

// ParseArgument parses an argument. ${name} is replaced, and $$ stands for a dollar. The
// names are those of pipe(8): sender, recipient, original_recipient, user, extension,
// mailbox (user and extension), domain, nexthop, size and queue_id. An argument with one
// that is different for each recipient is repeated for each of a delivery.
func ParseArgument(text string) (Argument, error) {
	var a Argument
	literal := ""
	for {
		before, rest, found := strings.Cut(text, "$")
		literal += before
		switch {
		case !found:
			a.pieces = append(a.pieces, piece{literal, macroNone})
			return a, a.sound()
		case strings.HasPrefix(rest, "$"):
			literal += "$"
			text = rest[1:]
		case strings.HasPrefix(rest, "{"):
			name, behind, closed := strings.Cut(rest[1:], "}")
			m := macroNamed(name)
			if !closed || m == macroNone {
				return Argument{}, fmt.Errorf("${%s is not one of the macros ${%s}", rest[1:], strings.Join(macroNames()[1:], "}, ${"))
			}
			a.pieces = append(a.pieces, piece{literal, m})
			literal, text = "", behind
		default:
			return Argument{}, errors.New("a macro is written ${name}, and a dollar $$")
		}
	}
}

// sound returns an error if the system cannot pass the argument on.
func (a Argument) sound() error {
	for _, p := range a.pieces {
		if strings.ContainsRune(p.text, 0) {
			return errors.New("there is a NUL in it")
		}
	}
	return nil
}

func macroNamed(name string) macro {
	for i, n := range macroNames() {
		if n == name {
			return macro(i)
		}
	}
	return macroNone
}

// repeated reports whether the argument is repeated for each recipient.
func (a Argument) repeated() bool {
	for _, p := range a.pieces {
		if p.macro >= macroRecipient {
			return true
		}
	}
	return false
}

// expand returns the argument for one recipient. ok is false if macros make an option of
// the argument, which its author did not write: by a dash of their own, or because they are
// empty before one of his.
func (a Argument) expand(v *values, r *mail.Recipient) (text string, ok bool) {
	var b strings.Builder
	for _, p := range a.pieces {
		b.WriteString(p.text)
		b.WriteString(v.value(p.macro, r))
	}
	text = b.String()
	return text, !strings.HasPrefix(text, "-") || strings.HasPrefix(a.pieces[0].text, "-")
}

// values are the values of macros in one delivery.
type values struct {
	config   *TransportConfig
	delivery *mail.Delivery
}

// arguments returns the arguments of a delivery. ok is false if an address would be
// taken for an option.
func (v *values) arguments(all []Argument) (list []string, ok bool) {
	for _, a := range all {
		recipients := v.delivery.Recipients
		if !a.repeated() {
			recipients = recipients[:1]
		}
		for i := range recipients {
			text, ok := a.expand(v, &recipients[i])
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
	}
	return list, true
}

func (v *values) value(m macro, r *mail.Recipient) string {
	flags := v.config.Flags
	switch m {
	case macroSender:
		return v.sender()
	case macroNexthop:
		return fold(v.delivery.Nexthop, flags&FlagFoldDomain != 0)
	case macroSize:
		return strconv.FormatInt(v.delivery.Envelope.Size, 10)
	case macroQueueID:
		return v.delivery.Envelope.ID.String()
	case macroRecipient:
		return v.address(r.Address)
	case macroOriginal:
		return v.address(smtp.OriginalRecipient(r))
	case macroUser, macroExtension:
		user, extension := v.split(unquote(r.Address.Local()))
		if m == macroExtension {
			user = extension
		}
		return fold(user, flags&FlagFoldLocal != 0)
	case macroMailbox:
		return fold(unquote(r.Address.Local()), flags&FlagFoldLocal != 0)
	case macroDomain:
		return fold(r.Address.Domain(), flags&FlagFoldDomain != 0)
	}
	return ""
}

// sender is not folded: flags h and u are about recipients.
func (v *values) sender() string {
	s := v.delivery.Envelope.Sender
	switch {
	case s == "":
		return v.config.NullSender
	case v.config.Flags&FlagQuote != 0:
		return string(s)
	}
	return join(unquote(s.Local()), s.Domain())
}

// address returns a recipient's address as the flags want it.
func (v *values) address(a mail.Address) string {
	flags, local := v.config.Flags, a.Local()
	if flags&FlagQuote == 0 {
		local = unquote(local)
	}
	return join(fold(local, flags&FlagFoldLocal != 0), fold(a.Domain(), flags&FlagFoldDomain != 0))
}

// split divides a local part at the first delimiter that is not at its beginning.
func (v *values) split(local string) (user, extension string) {
	for i := 1; i < len(local); i++ {
		if strings.IndexByte(v.config.Delimiter, local[i]) >= 0 {
			return local[:i], local[i+1:]
		}
	}
	return local, ""
}

func join(local, domain string) string {
	if domain == "" {
		return local
	}
	return local + "@" + domain
}

func fold(s string, doIt bool) string {
	if doIt {
		return strings.ToLower(s)
	}
	return s
}

// unquote returns a local part without its quotes (RFC 5321 4.1.2).
func unquote(local string) string {
	if len(local) < 2 || local[0] != '"' || local[len(local)-1] != '"' {
		return local
	}
	var b strings.Builder
	inside := local[1 : len(local)-1]
	for i := 0; i < len(inside); i++ {
		if inside[i] == '\\' && i+1 < len(inside) {
			i++
		}
		b.WriteByte(inside[i])
	}
	return b.String()
}
