package smtp

import (
	"strings"
	"time"
)

// Caps is what a server offers: the keywords of one EHLO reply (RFC 5321
// 4.1.1.1). The zero value describes a server that was greeted with HELO. Caps
// are valid only in the session of that reply, and only until the next EHLO.
type Caps struct {
	Name string // the server's name for itself, as sent; "" if it gives none

	Pipelining bool // RFC 2920
	EightBit   bool // 8BITMIME, RFC 6152
	UTF8       bool // SMTPUTF8, RFC 6531
	DSN        bool // RFC 3461
	Status     bool // ENHANCEDSTATUSCODES, RFC 2034
	Chunking   bool // RFC 3030
	Burl       bool // RFC 4468; no transaction may be pipelined after a BDAT
	StartTLS   bool // RFC 3207
	RequireTLS bool // RFC 8689
	Priority   bool // RFC 6710
	VERP       bool // XVERP, Postfix's VERP_README
	DeliverBy  bool // RFC 2852

	// DeliverByMin is the shortest time that the server takes for BY with R; 0 if it names none.
	DeliverByMin time.Duration

	Size    bool   // RFC 1870
	SizeMax int64  // octets; 0 if the server names no fixed maximum
	Auth    string // mechanisms separated by spaces, RFC 4954; "" if none
	Limits  Limits
}

// Limits holds the limits of the server's LIMITS keyword (RFC 9422); 0 means
// that the server names no limit.
type Limits struct {
	Mails            int // MAIL commands in a session, successful or not
	Recipients       int // RCPT commands in a transaction, successful or not
	RecipientDomains int // different domains of recipients in a session
}

// ParseCaps parses the text of a positive reply to EHLO, as ReplyParser.Text
// returns it. Unknown keywords and malformed parameters are ignored.
func ParseCaps(text string) Caps {
	var c Caps
	first, rest, more := strings.Cut(text, "\n")
	c.Name, _, _ = strings.Cut(first, " ")
	if !more {
		return c
	}
	for line := range strings.SplitSeq(rest, "\n") {
		keyword, params, _ := strings.Cut(line, " ")
		c.set(strings.ToUpper(keyword), strings.TrimSpace(params))
	}
	return c
}

func (c *Caps) set(keyword, params string) {
	switch keyword {
	case "PIPELINING":
		c.Pipelining = true
	case "8BITMIME":
		c.EightBit = true
	case "SMTPUTF8":
		c.UTF8 = true
	case "DSN":
		c.DSN = true
	case "ENHANCEDSTATUSCODES":
		c.Status = true
	case "CHUNKING":
		c.Chunking = true
	case "BURL":
		c.Burl = true
	case "STARTTLS":
		c.StartTLS = true
	case "MT-PRIORITY":
		c.Priority = true
	case "XVERP":
		c.VERP = true
	case "REQUIRETLS":
		c.RequireTLS = true
	case "DELIVERBY":
		c.DeliverBy, c.DeliverByMin = true, parseByMin(params)
	case "SIZE":
		c.Size = true
		c.SizeMax, _ = decimal(params, 18)
	case "AUTH":
		c.Auth = strings.ToUpper(params)
	case "LIMITS":
		c.Limits = parseLimits(params)
	}
}

// parseLimits parses "NAME=value" words. RFC 9422 3.2 defines the three values
// as one to six digits without a leading zero, so 0 is malformed; it is not a
// limit that lets nothing through.
func parseLimits(params string) Limits {
	var l Limits
	for word := range strings.FieldsSeq(params) {
		name, value, _ := strings.Cut(word, "=")
		n, ok := decimal(value, 6)
		if !ok || n == 0 {
			continue
		}
		switch strings.ToUpper(name) {
		case "MAILMAX":
			l.Mails = int(n)
		case "RCPTMAX":
			l.Recipients = int(n)
		case "RCPTDOMAINMAX":
			l.RecipientDomains = int(n)
		}
	}
	return l
}

// decimal parses a number of at most digitsMax digits, without a sign or a
// leading zero.
func decimal(s string, digitsMax int) (n int64, ok bool) {
	if s == "" || len(s) > digitsMax || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}
