package credential

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Protection is the security that a connection must have for a credential to be used on it.
type Protection uint8

const (
	// Verified is TLS with a server that has proved to be the one that the nexthop names.
	Verified Protection = iota
	// Encrypted is TLS, whoever the server is: an attacker between us and it can get a password.
	Encrypted
	// Optional is TLS if the server offers it. Without it only mechanisms are used that do not
	// send the password, unless Credential.InClear.
	Optional
)

// A Credential is a user with a password or token, and the nexthops whose servers get it.
type Credential struct {
	// Name names it in demands, logs and views: letters, digits, "-", "_" and ".".
	Name string
	// For are the nexthops that it is for, and Senders the senders of mail for them; see Table.
	// Without Senders it is for all mail.
	For     []string
	Senders []string
	User    string
	// Password is for all mechanisms but those with tokens. It is the only one of the three
	// sources of a secret, or there is none.
	Password Secret
	Token    TokenSource
	// Mechanisms are those that may be used, in the order of preference (default: all that fit
	// the secret, best first).
	Mechanisms []string
	Protection Protection
	// InClear allows mechanisms that send the password or token on connections without TLS,
	// with Optional.
	InClear bool
}

// A TokenSource is a source of OAuth 2.0 access tokens; the zero TokenSource has none.
type TokenSource struct {
	// File has the token in its first line. Another program renews it, so the file is read
	// again for each connection.
	File string
	// Command is a program that prints a token, and its arguments; no shell interprets them.
	Command []string
	// Lifetime is the time for which a token of the command is used if it does not say so (default 5 minutes).
	Lifetime time.Duration
	// Timeout is the longest time that the command may take (default 30 seconds).
	Timeout time.Duration
}

// Defaults of a TokenSource, and bounds.
const (
	LifetimeDefault = 5 * time.Minute
	TimeoutDefault  = 30 * time.Second
	NameMax         = 64
	textMax         = 1024 // a user or a password
)

func (t *TokenSource) exists() bool { return t.File != "" || len(t.Command) > 0 }

// Names of mechanisms.
const (
	SCRAMPlus   = "SCRAM-SHA-256-PLUS"
	SCRAM       = "SCRAM-SHA-256"
	CRAMMD5     = "CRAM-MD5"
	Plain       = "PLAIN"
	Login       = "LOGIN"
	OAuthBearer = "OAUTHBEARER"
	XOAuth2     = "XOAUTH2"
)

// Mechanisms returns all mechanisms, best first.
func Mechanisms() []string {
	return append(passwordMechanisms(), tokenMechanisms()...)
}

func passwordMechanisms() []string { return []string{SCRAMPlus, SCRAM, CRAMMD5, Plain, Login} }
func tokenMechanisms() []string    { return []string{OAuthBearer, XOAuth2} }

// shows reports whether a mechanism sends the secret itself.
func shows(mechanism string) bool {
	switch mechanism {
	case SCRAMPlus, SCRAM, CRAMMD5:
		return false
	}
	return true
}

// mechanisms returns the mechanisms that may be used, in the order of preference.
func (c *Credential) mechanisms() []string {
	if len(c.Mechanisms) > 0 {
		return c.Mechanisms
	}
	if c.Token.exists() {
		return tokenMechanisms()
	}
	return passwordMechanisms()
}

// Validate returns all that is wrong with a credential, joined; nil if nothing is. The text has
// no secrets.
func (c *Credential) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameLike(c.Name) {
		bad("%q cannot be the name of a credential: letters, digits, -, _ and . can, at most %d of them", c.Name, NameMax)
	}
	if len(c.For) == 0 {
		bad("for: it is for no nexthop; name those to whose servers it is said, such as for = [\"[smtp.example.net]:587\"]")
	}
	for _, pattern := range c.For {
		if _, err := parsePattern(pattern); err != nil {
			bad("for: %w", err)
		}
	}
	for _, sender := range c.Senders {
		if _, err := parseSender(sender); err != nil {
			bad("senders: %w", err)
		}
	}
	if c.User == "" {
		bad("user: it has no user")
	}
	if len(c.User) > textMax || strings.ContainsAny(c.User, "\x00\x01\r\n") {
		bad("user: it is longer than %d octets, or has a control character", textMax)
	}
	if p := c.Password.reveal(); len(p) > textMax || strings.ContainsRune(p, 0) {
		bad("password: it is longer than %d octets, or has a NUL", textMax)
	}
	sources := 0
	for _, has := range []bool{!c.Password.IsZero(), c.Token.File != "", len(c.Token.Command) > 0} {
		if has {
			sources++
		}
	}
	if sources != 1 {
		bad("it needs one of password, password_file, token_file and token_command, and no two of them")
	}
	if len(c.Token.Command) > 0 && !strings.HasPrefix(c.Token.Command[0], "/") {
		bad("token_command: the program needs an absolute path")
	}
	if c.InClear && c.Protection != Optional {
		bad("secret_in_clear: it has no effect unless tls is optional")
	}
	return errors.Join(append(errs, c.validateMechanisms())...)
}

func (c *Credential) validateMechanisms() error {
	fit := passwordMechanisms()
	if c.Token.exists() {
		fit = tokenMechanisms()
	}
	for _, m := range c.Mechanisms {
		if !slices.Contains(fit, m) {
			return fmt.Errorf("mechanisms: %q is none that can be used with this secret; those are %s", m, strings.Join(fit, ", "))
		}
	}
	return nil
}

// nameLike reports whether a text can be the name of a credential.
func nameLike(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return name != "" && len(name) <= NameMax
}
