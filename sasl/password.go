package sasl

import (
	"errors"

	gosasl "github.com/emersion/go-sasl"
)

// A Server is the server's side of one exchange. Next gets the client's message, nil if the
// client has sent none with its first command, and returns the challenge. done is true once
// the client has shown who it is; an error ends the exchange.
type Server = gosasl.Server

// The errors of exchanges. None has anything of what the client sent.
var (
	// ErrRejected means that the user does not exist or has not shown that it is this user.
	ErrRejected = errors.New("wrong user or password")
	// ErrMessage means that the client has sent something that the mechanism does not have.
	ErrMessage = errors.New("invalid message")
	// ErrOtherIdentity means that the client wants to act as another user.
	ErrOtherIdentity = errors.New("the user may not act as another one")
	// ErrBinding means that the client is bound to another connection than this one, that
	// an attacker has changed what we offered to it, or that the connection has no binding of
	// the type that the client wants.
	ErrBinding = errors.New("the channel binding does not fit: the TLS connection does not end at the client, or the client wants a type of binding that it does not have")
	// ErrNotNow is what a PasswordCheck returns if it cannot be made now. It says nothing
	// about the client.
	ErrNotNow = errors.New("passwords cannot be checked now")
)

// A PasswordCheck reports whether a user has a password: nil, ErrRejected or ErrNotNow.
type PasswordCheck func(user, password string) error

// NewPlain returns an exchange of PLAIN.
func NewPlain(check PasswordCheck) Server {
	return &plain{gosasl.NewPlainServer(func(identity, user, password string) error {
		switch {
		case user == "" || password == "" || len(password) > PasswordMax:
			return ErrMessage // RFC 4616 2: each has a character at least
		case !sameUser(identity, user):
			return ErrOtherIdentity
		}
		return check(user, password)
	})}
}

// plain keeps the library's own errors from the log.
type plain struct{ Server }

func (p *plain) Next(response []byte) (challenge []byte, done bool, err error) {
	challenge, done, err = p.Server.Next(response)
	return challenge, done && err == nil, known(err)
}

// known returns an error of this package for one of a library, which may contain what the
// client has sent.
func known(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrRejected), errors.Is(err, ErrOtherIdentity), errors.Is(err, ErrNotNow):
		return err
	}
	return ErrMessage
}

// sameUser reports whether an identity to act as is that of the user, or none.
func sameUser(identity, user string) bool {
	if identity == "" || identity == user {
		return true
	}
	a, err := PrepareName(identity)
	b, err2 := PrepareName(user)
	return err == nil && err2 == nil && a == b
}

// login is an exchange of LOGIN: two questions, whose answers are the user and the
// password. Its specification has expired; clients look at nothing but the number of
// questions, or expect these very texts.
type login struct {
	check PasswordCheck
	state loginState
	user  string
}

type loginState uint8

const (
	loginBegins   loginState = iota
	loginUser                // the user is next
	loginPassword            // the password is next
	loginEnded
)

// NewLogin returns an exchange of LOGIN. The user may come with the client's first command,
// as some clients send it.
func NewLogin(check PasswordCheck) Server { return &login{check: check} }

func (l *login) Next(response []byte) (challenge []byte, done bool, err error) {
	switch {
	case l.state == loginBegins && response == nil:
		l.state = loginUser
		return []byte("Username:"), false, nil
	case l.state <= loginUser:
		if len(response) == 0 {
			break
		}
		l.user, l.state = string(response), loginPassword
		return []byte("Password:"), false, nil
	case l.state == loginPassword:
		if len(response) == 0 || len(response) > PasswordMax {
			break
		}
		l.state = loginEnded
		err = l.check(l.user, string(response))
		return nil, err == nil, known(err)
	}
	l.state = loginEnded
	return nil, false, ErrMessage
}
