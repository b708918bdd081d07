package sasl

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"

	"github.com/xdg-go/scram"
)

// Limits of Keys. RFC 7677 4 asks for 4096 iterations at least; a client computes them, so
// a file with a huge number would keep its users busy.
const (
	IterationsMin = 4096
	IterationsMax = 10_000_000
	SaltMin       = 8
	SaltMax       = 64
)

// Keys are what the server keeps for SCRAM-SHA-256 instead of a password (RFC 5802 3). Who
// has them can pass for the server, and try passwords, but not log in.
type Keys struct {
	Salt       []byte
	Iterations int
	Stored     []byte // 32 bytes
	Server     []byte // 32 bytes
}

// NewKeys returns the keys of a password that Prepare has returned.
func NewKeys(prepared string, salt []byte, iterations int) (Keys, error) {
	salted, err := pbkdf2.Key(sha256.New, prepared, salt, iterations, sha256.Size)
	if err != nil {
		return Keys{}, fmt.Errorf("PBKDF2: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	k := Keys{Salt: salt, Iterations: iterations, Stored: stored[:], Server: mac(salted, "Server Key")}
	return k, k.Validate()
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// Validate returns what is wrong with keys.
func (k *Keys) Validate() error {
	switch {
	case k.Iterations < IterationsMin || k.Iterations > IterationsMax:
		return fmt.Errorf("%d iterations are not between %d and %d", k.Iterations, IterationsMin, IterationsMax)
	case len(k.Salt) < SaltMin || len(k.Salt) > SaltMax:
		return fmt.Errorf("a salt of %d bytes is not between %d and %d", len(k.Salt), SaltMin, SaltMax)
	case len(k.Stored) != sha256.Size || len(k.Server) != sha256.Size:
		return fmt.Errorf("keys of %d and %d bytes; SHA-256 makes %d", len(k.Stored), len(k.Server), sha256.Size)
	}
	return nil
}

// A KeyLookup returns the keys of a user, and of one that does not exist keys that no client
// has, with a salt that is the same each time: a client must not learn from the salt who
// exists (RFC 5802 9 leaves that to the server).
type KeyLookup func(user string) Keys

// A Binding returns what binds an exchange to the connection, by its type: "tls-exporter"
// (RFC 9266), "tls-unique" or "tls-server-end-point" (RFC 5929). It returns nil for a type
// that the connection does not have.
type Binding func(kind string) []byte

// A Scram is an exchange of SCRAM-SHA-256 or SCRAM-SHA-256-PLUS.
type Scram struct {
	lookup  KeyLookup
	binding Binding
	plus    bool          // the mechanism's name ends in it
	offered bool          // -PLUS was
	nonce   func() string // of tests; nil: random
	talk    *scram.ServerConversation
	state   scramState
}

type scramState uint8

const (
	scramFirst scramState = iota // the client's first message is next
	scramFinal                   // its final one is
	scramEnd                     // its empty answer to ours is
	scramEnded
)

// NewScram returns an exchange of SCRAM-SHA-256-PLUS if plus is true, else of
// SCRAM-SHA-256. offered reports whether -PLUS was offered to the client; binding may be nil
// if it was not.
func NewScram(plus, offered bool, lookup KeyLookup, binding Binding) *Scram {
	return &Scram{lookup: lookup, binding: binding, plus: plus, offered: offered}
}

// User returns the name that the client gave, "" before that.
func (s *Scram) User() string {
	if s.talk == nil {
		return ""
	}
	return s.talk.Username()
}

// Next implements Server.
func (s *Scram) Next(response []byte) (challenge []byte, done bool, err error) {
	switch state := s.state; state {
	case scramFirst:
		if response == nil {
			return []byte{}, false, nil
		}
		s.state = scramFinal
		challenge, err = s.first(response)
	case scramFinal:
		s.state = scramEnd
		challenge, err = s.final(response)
	default:
		s.state = scramEnded
		if state == scramEnded || len(response) > 0 {
			return nil, false, ErrMessage
		}
		return nil, true, nil
	}
	if err != nil {
		s.state = scramEnded
	}
	return challenge, false, err
}

// first answers the client's first message. The library has one binding for an exchange,
// so it is made when the client has chosen.
func (s *Scram) first(message []byte) ([]byte, error) {
	flag, _, _ := bytes.Cut(message, []byte(","))
	kind, bound := bytes.CutPrefix(flag, []byte("p="))
	if bound != s.plus || string(flag) == "y" && s.offered {
		return nil, ErrBinding
	}
	all, err := scram.SHA256.NewServer(s.credentials)
	if err != nil {
		return nil, err
	}
	if s.nonce != nil {
		all.WithNonceGenerator(s.nonce)
	}
	if bound {
		octets := s.binding(string(kind))
		if len(octets) == 0 {
			return nil, ErrBinding
		}
		s.talk = all.NewConversationWithChannelBindingRequired(scram.ChannelBinding{Type: scram.ChannelBindingType(kind), Data: octets})
	} else {
		s.talk = all.NewConversation()
	}
	answer, err := s.talk.Step(string(message))
	switch {
	case err != nil:
		return nil, ErrMessage // the library's error has parts of the message
	case !sameUser(s.talk.AuthzID(), s.talk.Username()):
		return nil, ErrOtherIdentity
	}
	return []byte(answer), nil
}

func (s *Scram) credentials(user string) (scram.StoredCredentials, error) {
	k := s.lookup(user)
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(k.Salt), Iters: k.Iterations},
		StoredKey:  k.Stored, ServerKey: k.Server,
	}, nil
}

// bindingFailure is the library's answer to a client that is bound to another connection.
const bindingFailure = scram.ErrChannelBindingsDontMatch

// final answers the client's proof.
func (s *Scram) final(message []byte) ([]byte, error) {
	answer, err := s.talk.Step(string(message))
	switch {
	case err != nil && answer == bindingFailure:
		return nil, ErrBinding
	case err != nil && answer == "":
		return nil, ErrMessage
	case err != nil || !s.talk.Valid():
		return nil, ErrRejected
	}
	return []byte(answer), nil
}

var _ Server = (*Scram)(nil)
