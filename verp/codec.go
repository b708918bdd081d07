package verp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/ascii"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Codec writes and reads addresses. The zero Codec has the delimiters of Default and
// writes no tags. It is safe for concurrent use.
type Codec struct {
	Delimiters Delimiters
	// Secrets are the keys of tags: the first one writes, all are good for reading. Without
	// any, addresses have no tags.
	Secrets [][]byte
}

// Errors of Encode, Decode and Split.
var (
	ErrNull  = errors.New("verp: a sender without a domain has no place for a recipient")
	ErrLong  = fmt.Errorf("verp: the address is longer than %d octets", smtp.PathMax-2)
	ErrForm  = errors.New("verp: the address has no recipient in it")
	ErrWrong = errors.New("verp: the address has no tag of ours, so it was made up, or it is older than the secret")
)

// Encode returns the sender of a message to one recipient. Errors are ErrNull, for the null
// sender, ErrLong, and ErrForm for a recipient or sender that is no address; the message is sent
// from its own sender then.
//
// The recipient should be as the sender gave it, before any rewriting, because it is the
// sender who reads the result. If it is beyond ASCII, so is the result, as is the envelope
// that it comes from.
func (c *Codec) Encode(sender, recipient mail.Address) (mail.Address, error) {
	domain := sender.Domain()
	if domain == "" {
		return "", ErrNull
	}
	local, ok := bare(sender.Local())
	to, okTo := bare(recipient.Local())
	if !ok || !okTo {
		return "", ErrForm
	}
	sender, err := join(local, domain)
	if err != nil {
		return "", err
	}
	d := c.Delimiters.withDefault()
	b := append(make([]byte, 0, smtp.PathMax), local...)
	b = append(b, d.Before)
	if len(c.Secrets) > 0 {
		// The reader of the tag has both addresses with minimum quoting.
		if host := recipient.Domain(); host != "" {
			if recipient, err = join(to, host); err != nil {
				return "", err
			}
		}
		b = append(append(b, tag(c.Secrets[0], sender, recipient)...), d.Before)
	}
	b = append(b, to...)
	if host := recipient.Domain(); host != "" {
		b = append(append(b, d.At), host...)
	}
	return join(string(b), domain)
}

// Decode returns the recipient of an address that Encode made of a sender, which is ErrForm
// if it did not, and ErrWrong if it lacks a tag that it should have. Letters may be in
// another case than they were written in; the recipient's remain as they are.
func (c *Codec) Decode(sender, address mail.Address) (mail.Address, error) {
	if sender.Domain() == "" || !strings.EqualFold(sender.Domain(), address.Domain()) {
		return "", ErrForm
	}
	prefix, ok := bare(sender.Local())
	local, okLocal := bare(address.Local())
	if !ok || !okLocal || len(local) <= len(prefix) || !strings.EqualFold(local[:len(prefix)], prefix) ||
		local[len(prefix)] != c.Delimiters.withDefault().Before {
		return "", ErrForm
	}
	sender, err := join(prefix, sender.Domain())
	if err != nil {
		return "", err
	}
	return c.recipient(sender, local[len(prefix)+1:])
}

// Split returns the sender and the recipient of an address whose sender is not known. Without
// tags it takes the first delimiter for the one that ends the sender, so senders that contain
// it are read wrongly; use Decode where senders are known.
func (c *Codec) Split(address mail.Address) (sender, recipient mail.Address, err error) {
	local, ok := bare(address.Local())
	if !ok || address.Domain() == "" {
		return "", "", ErrForm
	}
	before := c.Delimiters.withDefault().Before
	err = ErrForm
	for i := 1; i < len(local); i++ {
		if local[i] != before {
			continue
		}
		sender, e := join(local[:i], address.Domain())
		if e != nil {
			continue
		}
		recipient, e := c.recipient(sender, local[i+1:])
		if e == nil {
			return sender, recipient, nil
		}
		if e == ErrWrong {
			err = e
		}
	}
	return "", "", err
}

// recipient reads what follows the first delimiter.
func (c *Codec) recipient(sender mail.Address, text string) (mail.Address, error) {
	d := c.Delimiters.withDefault()
	if len(c.Secrets) == 0 {
		return c.address(text)
	}
	if len(text) <= tagLength || text[tagLength] != d.Before {
		if _, err := c.address(text); err != nil {
			return "", ErrForm
		}
		return "", ErrWrong
	}
	to, err := c.address(text[tagLength+1:])
	if err != nil {
		return "", err
	}
	given := []byte(strings.ToLower(text[:tagLength]))
	for _, secret := range c.Secrets {
		if hmac.Equal(given, tag(secret, sender, to)) {
			return to, nil
		}
	}
	return "", ErrWrong
}

// address puts the "@" of a recipient back. Without one there is only "postmaster"
// (RFC 5321 4.5.1).
func (c *Codec) address(text string) (mail.Address, error) {
	i := strings.LastIndexByte(text, c.Delimiters.withDefault().At)
	if i < 0 && strings.EqualFold(text, "postmaster") {
		return "postmaster", nil
	}
	if i <= 0 {
		return "", ErrForm
	}
	return join(text[:i], text[i+1:])
}

// join makes an address of a local part without quotes, with those that it needs.
func join(local, domain string) (mail.Address, error) {
	b := append(make([]byte, 0, len(local)+len(domain)+8), '<', '"')
	for i := range len(local) {
		if c := local[i]; c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, local[i])
	}
	b = append(append(append(b, `"@`...), domain...), '>')
	p, rest, fault := smtp.ParsePath(b, smtp.PathRules{Underscore: true, LocalMax: smtp.PathMax})
	switch {
	case fault == smtp.FaultLocalLong || fault == smtp.FaultPathLong || fault == smtp.FaultDomainLong:
		return "", ErrLong
	case fault != smtp.FaultNone || len(rest) > 0:
		return "", ErrForm
	}
	return p.Address, nil
}

// bare returns a local part without its quotes. ok is false if it is empty or has a quote
// that does not end.
func bare(local string) (text string, ok bool) {
	if local == "" || local[0] != '"' {
		return local, local != ""
	}
	b := make([]byte, 0, len(local))
	for i := 1; i < len(local); i++ {
		switch c := local[i]; {
		case c == '"':
			return string(b), i == len(local)-1 && len(b) > 0
		case c == '\\' && i+1 < len(local):
			i++
			b = append(b, local[i])
		default:
			b = append(b, c)
		}
	}
	return "", false
}

// tagLength is the length of a tag in octets: 40 bits, of which a guess costs a message.
const tagLength = 8

var tagEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// tag returns the tag for a sender and a recipient. Case does not count, because some servers
// change it on the way back.
func tag(secret []byte, sender, recipient mail.Address) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("verp\x00" + ascii.Lower(string(sender)) + "\x00" + ascii.Lower(string(recipient))))
	return tagEncoding.AppendEncode(nil, h.Sum(nil)[:tagLength*5/8])
}
