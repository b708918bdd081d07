package credential

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"

	"github.com/posthaste-mta/posthaste/mail"
)

// IterationsMax is the largest number of iterations of SCRAM that a server may demand: about a
// third of a second of one processor. RFC 7677 demands 4096 of it; current advice is 600,000.
const IterationsMax = 1_000_000

// A Conversation proves to one server that it speaks with a credential's user. It is a
// client.Authenticator, used by one goroutine.
type Conversation struct {
	held  *Held
	token Secret
	state *tls.ConnectionState

	mechanism string
	client    exchange
}

// NewConversation returns a conversation. The token is that of Held.Token, empty for a credential
// with a password.
func NewConversation(h *Held, token Secret) *Conversation {
	return &Conversation{held: h, token: token}
}

// Secured notes what TLS has negotiated, for mechanisms that are bound to it.
func (v *Conversation) Secured(state *tls.ConnectionState) { v.state = state }

// Mechanism returns the mechanism that was chosen, or "".
func (v *Conversation) Mechanism() string { return v.mechanism }

// Begin chooses the first of the credential's mechanisms that the server offers.
func (v *Conversation) Begin(offered []string, encrypted bool) (mechanism string, initial []byte, err error) {
	for _, m := range v.held.mechanisms() {
		switch {
		case !slices.Contains(offered, m):
		case m == SCRAMPlus && !v.binding().IsSupported():
		case !encrypted && shows(m) && !v.held.InClear:
		default:
			return v.start(m)
		}
	}
	return "", nil, v.noMechanism(offered, encrypted)
}

func (v *Conversation) start(m string) (mechanism string, initial []byte, err error) {
	v.mechanism = m
	if v.client, err = v.clientOf(m); err != nil {
		return "", nil, err
	}
	initial, err = v.client.start()
	return m, initial, err
}

func (v *Conversation) clientOf(m string) (exchange, error) {
	c := &v.held.Credential
	switch m {
	case SCRAMPlus, SCRAM:
		return v.scram(m == SCRAMPlus)
	case CRAMMD5:
		return cramMD5{c}, nil
	case Plain:
		return plain{c}, nil
	case Login:
		return &login{credential: c}, nil
	}
	return &bearer{user: c.User, token: v.token, mechanism: m}, nil
}

// noMechanism says why no mechanism can be used, as Postfix does, and what to do.
func (v *Conversation) noMechanism(offered []string, encrypted bool) error {
	if len(offered) == 0 {
		what := "the server offers no authentication"
		if !encrypted {
			what += " without TLS"
		}
		return errors.New(what)
	}
	const most = 10
	some, own := offered[:min(len(offered), most)], v.held.mechanisms()
	text := "no mechanism available: the server offers " + strings.Join(some, " ") + ", credential " + v.held.Name + " allows " + strings.Join(own, " ")
	if !encrypted && slices.ContainsFunc(some, func(m string) bool { return slices.Contains(own, m) && shows(m) }) {
		text += ", and no secret is sent without TLS"
	}
	return errors.New(text)
}

// Answer returns the response to a challenge.
func (v *Conversation) Answer(challenge []byte) ([]byte, error) { return v.client.next(challenge) }

// Complete reports whether the server has proved to know the password, too, if the mechanism has
// it do that.
func (v *Conversation) Complete() bool {
	s, proves := v.client.(*scramClient)
	return !proves || s.conversation.Valid()
}

// binding returns what a mechanism is bound to a connection by (RFC 5929, RFC 9266).
func (v *Conversation) binding() scram.ChannelBinding {
	if v.state == nil {
		return scram.ChannelBinding{}
	}
	if v.state.Version >= tls.VersionTLS13 {
		b, err := scram.NewTLSExporterBinding(v.state)
		if err != nil {
			return scram.ChannelBinding{}
		}
		return b
	}
	// Without the extended master secret, tls-unique does not identify a connection (RFC 9266 1):
	// then package tls exports nothing.
	if _, err := v.state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32); err != nil || len(v.state.TLSUnique) == 0 {
		return scram.ChannelBinding{}
	}
	return scram.NewTLSUniqueBinding(v.state.TLSUnique)
}

// scram begins SCRAM (RFC 5802, RFC 7677).
func (v *Conversation) scram(plus bool) (exchange, error) {
	c, err := scram.HashGeneratorFcn(sha256.New).NewClient(v.held.User, v.held.Password.reveal(), "")
	if err != nil {
		return nil, errors.New("user or password of credential " + v.held.Name + " cannot be used with SCRAM: they have characters that SASLprep prohibits (RFC 4013)")
	}
	s := &scramClient{}
	switch binding := v.binding(); {
	case plus:
		s.conversation = c.NewConversationWithChannelBinding(binding)
	case binding.IsSupported() && slices.Contains(v.held.mechanisms(), SCRAMPlus):
		// The server learns that we would have, had it offered that: if it has, its offer was
		// changed on the way (RFC 5802 6).
		s.conversation = c.NewConversationAdvertisingChannelBinding()
	default:
		s.conversation = c.NewConversation()
	}
	return s, nil
}

// An exchange is the client's side of one mechanism. Those of go-sasl have the password as a text,
// which whatever prints them shows.
type exchange interface {
	// start returns the initial response, nil for none.
	start() ([]byte, error)
	next(challenge []byte) ([]byte, error)
}

// A scramClient adapts package scram.
type scramClient struct {
	conversation *scram.ClientConversation
	steps        int
}

func (s *scramClient) start() ([]byte, error) {
	first, err := s.conversation.Step("")
	return []byte(first), err
}

func (s *scramClient) next(challenge []byte) ([]byte, error) {
	if s.steps++; s.steps == 1 {
		if err := checkIterations(string(challenge)); err != nil {
			return nil, err
		}
	}
	response, err := s.conversation.Step(string(challenge))
	if err != nil {
		return nil, errors.New("SCRAM: " + mail.CleanText(err.Error()))
	}
	return []byte(response), nil
}

// checkIterations refuses a server's first message (RFC 5802 5.1) that asks for too much work.
func checkIterations(first string) error {
	for field := range strings.SplitSeq(first, ",") {
		text, ok := strings.CutPrefix(field, "i=")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(text); err != nil || n > IterationsMax {
			return fmt.Errorf("SCRAM: the server demands more than %d iterations", IterationsMax)
		}
	}
	return nil
}

// cramMD5 is CRAM-MD5 (RFC 2195).
type cramMD5 struct{ credential *Credential }

func (c cramMD5) start() ([]byte, error) { return nil, nil }

func (c cramMD5) next(challenge []byte) ([]byte, error) {
	if len(challenge) == 0 {
		return nil, errors.New("CRAM-MD5: the server's challenge is empty")
	}
	mac := hmac.New(md5.New, []byte(c.credential.Password.reveal()))
	mac.Write(challenge)
	return []byte(c.credential.User + " " + hex.EncodeToString(mac.Sum(nil))), nil
}

// plain is PLAIN (RFC 4616).
type plain struct{ credential *Credential }

func (p plain) start() ([]byte, error) {
	return plainResponse(p.credential.User, p.credential.Password), nil
}

func plainResponse(user string, password Secret) []byte {
	return []byte("\x00" + user + "\x00" + password.reveal())
}

func (p plain) next([]byte) ([]byte, error) {
	return nil, errors.New("PLAIN: the server asks for more than user and password")
}

// login is LOGIN, which no RFC defines: the user, and then the password. What servers ask with
// differs.
type login struct {
	credential *Credential
	said       int
}

func (l *login) start() ([]byte, error) { return nil, nil }

func (l *login) next([]byte) ([]byte, error) {
	switch l.said++; l.said {
	case 1:
		return []byte(l.credential.User), nil
	case 2:
		return []byte(l.credential.Password.reveal()), nil
	}
	return nil, errors.New("LOGIN: the server asks for more than user and password")
}

// bearer is OAUTHBEARER (RFC 7628) or XOAUTH2 (Google's). A challenge is an error in JSON, after
// which the server wants one more response before it refuses.
type bearer struct {
	user      string
	token     Secret
	mechanism string
}

func (b *bearer) start() ([]byte, error) { return bearerResponse(b.mechanism, b.user, b.token), nil }

func bearerResponse(mechanism, user string, token Secret) []byte {
	if mechanism == XOAuth2 {
		return []byte("user=" + user + "\x01auth=Bearer " + token.reveal() + "\x01\x01")
	}
	user = strings.NewReplacer("=", "=3D", ",", "=2C").Replace(user) // RFC 5801 4
	return []byte("n,a=" + user + ",\x01auth=Bearer " + token.reveal() + "\x01\x01")
}

func (b *bearer) next([]byte) ([]byte, error) {
	if b.mechanism == XOAuth2 {
		return nil, nil
	}
	return []byte{1}, nil
}
