package sink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Config is how a Server behaves. The zero value is a good receiver without
// limits.
type Config struct {
	// Hostname is what the server calls itself. Default "sink.test".
	Hostname string
	// KeyField is the header field that names a message in a Delivery. Default
	// "Message-ID".
	KeyField string
	// ContentKept is the number of octets of a message's content, from its begin, a
	// Delivery has. Default 0; set it to read the messages themselves.
	ContentKept int

	// ConnectionLimit is the number of connections that are served at once; further ones
	// get 421. 0 means no limit.
	ConnectionLimit int
	// ClientConnectionLimit is the same for the connections from one address.
	ClientConnectionLimit int
	// RecipientLimit is the number of recipients a transaction may have; further
	// ones get 452. 0 means no limit; otherwise at least 100.
	RecipientLimit int
	// SizeLimit is the largest message, in octets. 0 means no limit; otherwise
	// at least 65536.
	SizeLimit int64
	// Withheld names ESMTP extensions that are not offered, as in EHLO.
	Withheld []string
	// DeliverBy has DELIVERBY offered (RFC 2852).
	DeliverBy bool

	// GreetingDelay comes before the greeting, CommandDelay before each reply,
	// RecipientDelay before each recipient is answered, and MessageDelay before
	// a message is taken. They add up.
	GreetingDelay, CommandDelay, RecipientDelay, MessageDelay time.Duration
	// IdleTime is the time for which a client may be silent. Default 5 minutes.
	IdleTime time.Duration

	// Faults are what goes wrong.
	Faults []Fault
	// Seed decides when. The same seed and the same connections give the same
	// faults.
	Seed uint64

	// Taken is called for each message after it was accepted and before the client
	// gets the reply. Refused is called for each fault. They are called
	// concurrently from many goroutines; nil disables them.
	Taken   func(Delivery)
	Refused func(Refusal)
}

// WithDefaults returns c with its zero values replaced.
func (c Config) WithDefaults() Config {
	if c.Hostname == "" {
		c.Hostname = "sink.test"
	}
	if c.KeyField == "" {
		c.KeyField = "Message-ID"
	}
	if c.IdleTime == 0 {
		c.IdleTime = 5 * time.Minute
	}
	if c.Taken == nil {
		c.Taken = func(Delivery) {}
	}
	if c.Refused == nil {
		c.Refused = func(Refusal) {}
	}
	return c
}

// Validate joins all complaints about a Config with its defaults filled in.
func (c Config) Validate() error {
	var complaints []error
	if min(c.ConnectionLimit, c.ClientConnectionLimit) < 0 || c.ContentKept < 0 {
		complaints = append(complaints, errors.New("a limit is negative"))
	}
	if min(c.GreetingDelay, c.CommandDelay, c.RecipientDelay, c.MessageDelay, c.IdleTime) < 0 {
		complaints = append(complaints, errors.New("a time is negative"))
	}
	for _, name := range c.Withheld {
		if !slices.Contains(extensions(), strings.ToUpper(name)) {
			complaints = append(complaints, fmt.Errorf("extension %q is not one of %s", name, strings.Join(extensions(), " ")))
		}
	}
	return errors.Join(append(complaints, validateFaults(c.Faults), c.session().Validate())...)
}

// many stands for "no limit" where the session has no such thing: what ends
// connections here is the Faults alone.
const many = 1 << 30

// session returns the configuration of the sessions.
func (c Config) session() *server.Config {
	s := server.Config{
		Hostname:           c.Hostname,
		Banner:             "ESMTP sink",
		SizeLimit:          c.SizeLimit,
		RecipientLimit:     c.RecipientLimit,
		RecipientOvershoot: many,
		TextLineLimit:      many,
		HopLimit:           many,
		OwnHopLimit:        many,
		SoftErrorLimit:     many,
		HardErrorLimit:     many,
		JunkLimit:          many,
		LocalPartLimit:     1024,
		Underscores:        true,
	}
	if s.SizeLimit == 0 {
		s.SizeLimit = server.Unlimited
	}
	if s.RecipientLimit == 0 {
		s.RecipientLimit = server.Unlimited
	}
	s = s.WithDefaults()
	return &s
}
