package client

import (
	"encoding/base64"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// An Authenticator proves to one server who we are (RFC 4954): the client's side of a SASL
// exchange. It is used for one session, by its goroutine, and does no I/O.
type Authenticator interface {
	// Begin chooses a mechanism from those that the server offers, and returns its name and,
	// unless it is nil, the initial response. An error means that none will do; its
	// text has no secrets.
	Begin(offered []string, encrypted bool) (mechanism string, initial []byte, err error)
	// Answer returns the response to a challenge. An error cancels the exchange.
	Answer(challenge []byte) ([]byte, error)
	// Complete reports whether the server may declare success now: a mechanism that also
	// proves to us who the server is has verified that.
	Complete() bool
}

// Limits of an exchange.
const (
	// ChallengesMax is the maximum number of challenges that are answered. No mechanism has
	// more than three.
	ChallengesMax = 10
	// AuthLineMax is the length of an AUTH command, in octets with its CRLF, up to which it
	// has the initial response (RFC 4954 4). A longer one is sent when the server asks for it.
	AuthLineMax = 512
)

// An exchange is where authentication is.
type exchange struct {
	initial    []byte // that did not fit into the command
	challenges int
	why        string // of the cancellation; "" without one
}

// authenticate begins the exchange. Nothing is written behind any of its commands: what the
// server makes of it decides what may follow.
func (s *Session) authenticate() {
	s.phase = phaseAuth
	mechanism, initial, err := s.cfg.Auth.Begin(strings.Fields(s.caps.Auth), s.secured)
	if err != nil {
		s.unauthenticated(err.Error())
		return
	}
	text := "=" // an empty initial response (RFC 4954 4)
	if len(initial) > 0 {
		text = base64.StdEncoding.EncodeToString(initial)
	}
	switch {
	case initial == nil:
		s.command(slot{kind: slotAuth}, "AUTH ", mechanism, "\r\n")
	case len("AUTH ")+len(mechanism)+len(" ")+len(text)+len("\r\n") > AuthLineMax:
		s.exchange.initial = initial
		s.command(slot{kind: slotAuth}, "AUTH ", mechanism, "\r\n")
	default:
		s.command(slot{kind: slotAuth}, "AUTH ", mechanism, " ", text, "\r\n")
	}
}

// onAuth handles a reply within the exchange.
func (s *Session) onAuth() {
	x := &s.exchange
	switch {
	case x.why != "": // cancelled: the server may only agree (501)
		if s.class() == 2 || s.class() == 3 {
			s.garbled(WaitAuth, "the server goes on after authentication was cancelled: "+x.why)
			return
		}
		s.unauthenticated(x.why)
	case s.parser.Code() == 334:
		s.challenged()
	case s.class() == 3:
		s.garbled(WaitAuth, "the reply to AUTH makes no sense")
	case s.class() == 2 && !s.cfg.Auth.Complete():
		s.unauthenticated("the server claims success without having proved who it is")
	case s.class() == 2:
		s.exchange, s.cfg.Auth = exchange{}, nil // thousands may be idle, and it has a password
		s.level = s.highest()
		s.phase = phaseReady
	default:
		s.refused(FailAuth, WaitAuth)
	}
}

// challenged answers a challenge, or cancels the exchange.
func (s *Session) challenged() {
	x := &s.exchange
	x.challenges++
	text := s.parser.Text()
	if x.initial != nil { // the server asks for it, with nothing to say
		s.respond(x.initial)
		x.initial = nil
		return
	}
	challenge, err := ParseChallenge(text)
	switch {
	case err != nil:
		s.cancel(err.Error())
		return
	case x.challenges > ChallengesMax:
		s.cancel("the server does not stop asking")
		return
	}
	response, err := s.cfg.Auth.Answer(challenge)
	if err != nil {
		s.cancel(err.Error())
		return
	}
	s.respond(response)
}

// ParseChallenge decodes the text of a 334 reply (RFC 4954 4): one line of base64, which may be
// empty. Spaces around it are no part of it.
func ParseChallenge(text string) ([]byte, error) {
	text = strings.Trim(text, " ")
	switch {
	case len(text) >= smtp.ReplyLineMax-2:
		return nil, errChallengeLong
	case strings.ContainsAny(text, "\r\n"): // which base64 would skip
		return nil, errChallenge
	}
	challenge, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errChallenge
	}
	return challenge, nil
}

type challengeError string

func (e challengeError) Error() string { return string(e) }

const (
	errChallenge     challengeError = "the server's challenge is not one line of base64"
	errChallengeLong challengeError = "the server's challenge is too long"
)

func (s *Session) respond(response []byte) {
	s.command(slot{kind: slotAuth}, base64.StdEncoding.EncodeToString(response), "\r\n")
}

func (s *Session) cancel(why string) {
	s.exchange = exchange{why: why}
	s.command(slot{kind: slotAuth}, "*\r\n")
}

// unauthenticated ends a session for a reason of our own, with QUIT.
func (s *Session) unauthenticated(what string) {
	s.fail(Failure{Kind: FailAuth, Stage: WaitAuth, Reply: s.own(454, mail.Status{Class: 4, Subject: 7}, "SASL authentication failed: "+mail.CleanText(what))})
	s.out.extend(append(s.out.commands, "QUIT\r\n"...))
}
