package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/sasl"
	"github.com/posthaste-mta/posthaste/sasl/guesses"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// AuthUse is whether clients of a listener may, and must, log in (RFC 4954).
type AuthUse uint8

const (
	AuthOff      AuthUse = iota // AUTH is not known
	AuthOptional                // a client that logs in may send anywhere
	AuthRequired                // the same, and of other clients only those that the Policy trusts may send
)

// String returns the word in configurations.
func (u AuthUse) String() string { return [...]string{"off", "optional", "required"}[u] }

// AuthConfig configures logins.
type AuthConfig struct {
	// Users are those who may log in, until Server.SetUsers replaces them; nil: none.
	Users *users.File
	// Concurrency is the number of passwords of PLAIN and LOGIN that are checked at once.
	// Each takes up to users.MemoryMax and a processor. Default: one less than there are
	// processors, and at least one.
	Concurrency int
	// Guesses limits failures. Networks that LimitExceptions has are not limited.
	Guesses guesses.Config
}

// waitersMax is the number of passwords that are checked or wait for it, of which one
// network has at most half, and waitMax the longest wait. With one processor, and 25 ms
// for each, the last one waits three seconds.
const (
	waitersMax = 100
	waitMax    = 10 * time.Second
)

// WithDefaults returns c with its zero values replaced.
func (c AuthConfig) WithDefaults() AuthConfig {
	if c.Concurrency == 0 {
		c.Concurrency = max(1, runtime.GOMAXPROCS(0)-1)
	}
	c.Guesses = c.Guesses.WithDefaults()
	return c
}

// Validate returns all errors of an AuthConfig with its defaults, joined.
func (c AuthConfig) Validate() error {
	var err error
	if c.Concurrency < 1 {
		err = fmt.Errorf("concurrency of password checks %d is not positive", c.Concurrency)
	}
	return errors.Join(err, c.Guesses.Validate())
}

// logins is the state that the authentication of all sessions shares.
type logins struct {
	file    atomic.Pointer[users.File] // nil: no client can log in
	waiting places
	slots   chan struct{}

	mu      sync.Mutex // guards guesses
	guesses *guesses.Table
}

func (l *logins) init(cfg *AuthConfig) {
	l.file.Store(cfg.Users)
	l.waiting = places{limit: waitersMax, byPrefix: map[netip.Prefix]int{}}
	l.slots = make(chan struct{}, cfg.Concurrency)
	l.guesses = guesses.New(cfg.Guesses)
}

// SetUsers replaces the users for logins that begin from now on; nil: none can log in.
func (s *Server) SetUsers(f *users.File) { s.logins.file.Store(f) }

func now() mail.Instant { return mail.Instant(time.Now().UnixNano()) }

func (l *logins) judge(from netip.Prefix, user string) guesses.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guesses.Judge(now(), from, user)
}

func (l *logins) failed(from netip.Prefix, user string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guesses.Failed(now(), from, user)
}

func (l *logins) succeeded(from netip.Prefix, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guesses.Succeeded(now(), from, user)
}

// login is the progress of a client with AUTH.
type login struct {
	exchange sasl.Server // nil: none has begun
	set      *users.Set
	user     string // whom the client has named, in the form of sasl.PrepareName; "" unknown
	how      string // the mechanism of the user who has logged in
}

// errGuesses is that of a password that is not checked because of too many failures.
type errGuesses struct{ verdict guesses.Verdict }

func (e errGuesses) Error() string { return e.verdict.String() }
func (e errGuesses) Unwrap() error { return sasl.ErrNotNow }

// authenticate goes on with an exchange.
func (c *connection) authenticate(ctx context.Context, r *server.Authenticate) {
	l := &c.login
	var err error
	if r.Begins {
		err = c.beginLogin(ctx, r.Mechanism)
	}
	if err == nil {
		err = c.mayTry(l.user)
	}
	var challenge []byte
	var done bool
	if err == nil {
		challenge, done, err = l.exchange.Next(r.Response)
	}
	switch {
	case err != nil:
		c.session.Answer(c.loginFailed(ctx, r.Mechanism, err))
	case !done:
		c.session.Challenge(challenge)
	default:
		c.server.counters.logins.Add(1)
		user := l.user
		c.server.logins.succeeded(c.guesser(), user)
		c.logIn(user, r.Mechanism.String())
		c.origin = c.newFlow()
		c.note("authenticated as " + user)
		c.debug("authenticated", "user", user, "mechanism", r.Mechanism.String())
		c.session.Authenticated(user)
	}
}

// beginLogin makes the exchange of a mechanism.
func (c *connection) beginLogin(ctx context.Context, m smtp.Mechanisms) error {
	c.login = login{}
	file := c.server.logins.file.Load()
	if file == nil {
		return fmt.Errorf("%w: there are no users", sasl.ErrNotNow)
	}
	set, err := file.Set(time.Now())
	if err != nil { // it goes on with those from before
		c.server.refusals.note(slog.LevelError, "the file of users cannot be used", "all", err.Error(), "error", err)
	}
	c.login.set = set
	check := func(name, password string) error { return c.checkPassword(ctx, name, password) }
	switch m {
	case smtp.MechPlain:
		c.login.exchange = sasl.NewPlain(check)
	case smtp.MechLogin:
		c.login.exchange = sasl.NewLogin(check)
	default:
		c.login.exchange = sasl.NewScram(m == smtp.MechScramPlus, c.tls != nil && c.terms.Mechanisms&smtp.MechScramPlus != 0, c.keys, c.binding)
	}
	return nil
}

// keys returns the keys of the user whom the client has named.
func (c *connection) keys(name string) sasl.Keys {
	c.login.user = nameOf(name)
	return c.login.set.Keys(name)
}

// nameOf returns a user's name as it is compared and shown, "" if it cannot be one.
func nameOf(name string) string {
	prepared, err := sasl.PrepareName(name)
	if err != nil {
		return ""
	}
	return prepared
}

// binding returns what binds an exchange to the TLS connection (RFC 9266, RFC 5929).
// tls-server-end-point is not there: resumed sessions have no certificate to hash.
func (c *connection) binding(kind string) []byte {
	if c.tls == nil {
		return nil
	}
	state := c.tls.ConnectionState()
	switch kind {
	case "tls-exporter":
		octets, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
		if err != nil { // TLS 1.2 without extended master secret
			return nil
		}
		return octets
	case "tls-unique":
		return state.TLSUnique // nil for TLS 1.3, and where it would bind nothing
	}
	return nil
}

// checkPassword checks a password when there is a slot for it.
func (c *connection) checkPassword(ctx context.Context, name, password string) error {
	l := &c.server.logins
	c.login.user = nameOf(name)
	if err := c.mayTry(c.login.user); err != nil {
		return err
	}
	from := c.network()
	if !l.waiting.begin(from) {
		return fmt.Errorf("%w: too many are being checked", sasl.ErrNotNow)
	}
	defer l.waiting.end(from)
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
	case <-timer.C:
		return fmt.Errorf("%w: none was ready in %s", sasl.ErrNotNow, waitMax)
	case <-ctx.Done():
		return sasl.ErrNotNow
	}
	defer func() { <-l.slots }()
	if err := c.mayTry(c.login.user); err != nil { // others may have failed meanwhile
		return err
	}
	if !c.login.set.Check(name, password) {
		return sasl.ErrRejected
	}
	return nil
}

// mayTry returns the error of a login that is not tried because of earlier failures.
func (c *connection) mayTry(user string) error {
	if v := c.server.logins.judge(c.guesser(), user); v != guesses.Tried {
		return errGuesses{v}
	}
	return nil
}

// guesser returns the network under which failures of the client are counted, an invalid
// one if they are not.
func (c *connection) guesser() netip.Prefix {
	addr := c.client.Addr
	if !c.server.admission.counted(addr) {
		return netip.Prefix{}
	}
	bits := 32
	if !addr.Is4() {
		bits = c.server.cfg.IPv6PrefixLength
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// loginFailed logs a failure, delays its reply and returns it. Replies to wrong users and
// wrong passwords are the same.
func (c *connection) loginFailed(ctx context.Context, m smtp.Mechanisms, err error) mail.Reply {
	user := c.login.user
	c.login = login{}
	text := mail.CleanText(user)
	if errors.Is(err, sasl.ErrNotNow) {
		c.server.counters.loginLater.Add(1)
		c.server.refusals.note(slog.LevelWarn, "authentication not tried", c.name(), err.Error(), "user", text, "mechanism", m.String(), "listener", c.terms.Name, "reason", err.Error())
		return mail.Reply{Code: 454, Status: mail.Status{Class: 4, Subject: 7, Detail: 0}, Text: "Error: temporary authentication failure; try again later"}
	}
	c.server.counters.loginFailed.Add(1)
	c.server.refusals.note(slog.LevelInfo, "authentication failed", c.name(), err.Error()+" "+text, "user", text, "mechanism", m.String(), "listener", c.terms.Name, "reason", err.Error())
	switch {
	case errors.Is(err, sasl.ErrMessage):
		return mail.Reply{Code: 501, Status: mail.Status{Class: 5, Subject: 5, Detail: 2}, Text: "Error: not a message of this mechanism"}
	case errors.Is(err, sasl.ErrRejected):
		c.pause(ctx, c.server.logins.failed(c.guesser(), user))
	}
	return mail.Reply{Code: 535, Status: mail.Status{Class: 5, Subject: 7, Detail: 8}, Text: "Error: authentication failed"}
}

// logIn takes the client for a user.
func (c *connection) logIn(user, how string) {
	c.client.User = user
	c.login = login{how: how}
}

// logOut forgets who the client is.
func (c *connection) logOut() {
	c.login = login{}
	if c.client.User != "" {
		c.client.User = ""
		c.origin = c.newFlow()
	}
}

// loggedIn returns who the client is for the log, nothing if it has not logged in.
func (c *connection) loggedIn() slog.Attr {
	if c.client.User == "" {
		return slog.Attr{}
	}
	return slog.Group("", slog.String("user", mail.CleanText(c.client.User)), slog.String("auth", c.login.how))
}
