// Command gosmtp is a server made of go-smtp, as a peer for tests. It refuses at
// random, and passes on what it takes, under the envelope under which it took it.
//
// It is a module of its own, and go.mod has two brothers, because it is built with
// three versions of go-smtp: up to v0.24.0 the library left the octets of a BDAT
// that it had refused on the connection, and so executed them as commands.
//
//	go build -modfile v0.21.3.mod
//
//	gosmtp -listen 127.0.0.1:2660 -to 127.0.0.1:2600 -refuse 25
package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"log"
	"math/rand/v2"
	"strings"

	"github.com/emersion/go-smtp"
)

func main() {
	listen := flag.String("listen", "", "where to listen")
	to := flag.String("to", "", "the server to which mail is passed on")
	refuse := flag.Int("refuse", 0, "one in how many commands is refused; 0 for none")
	last := flag.String("last", "", "the last line of every message")
	flag.Parse()
	s := smtp.NewServer(backend{to: *to, refuse: *refuse, last: *last})
	s.Addr, s.Domain = *listen, "gosmtp.interop.test"
	log.Fatal(s.ListenAndServe())
}

type backend struct {
	to     string
	refuse int
	last   string
}

func (b backend) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{backend: b}, nil }

// A session is one connection; the library calls it from one goroutine.
type session struct {
	backend
	sender     string
	recipients []string
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.sender = from
	return s.dice("MAIL")
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := s.dice("RCPT"); err != nil {
		return err
	}
	s.recipients = append(s.recipients, to)
	return nil
}

// Data is called behind a DATA or the first BDAT; to refuse before 354 is not
// possible. Half of the refusals come before the content was read.
func (s *session) Data(r io.Reader) error {
	early := rand.IntN(2) == 0
	err := s.dice("END")
	if err != nil && early {
		return err
	}
	content, failed := io.ReadAll(r)
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if !whole(string(content), s.last) {
		return errors.New("broken off")
	}
	return s.passOn(content)
}

// whole reports whether a message was not broken off. The library does not: it takes
// the octets of a BDAT that came before the connection was lost for all of them.
func whole(content, last string) bool {
	return strings.HasSuffix(content, "\r\n"+last+"\r\n") || last == ""
}

func (s *session) passOn(content []byte) error {
	c, err := smtp.Dial(s.to)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.SendMail(s.sender, s.recipients, bytes.NewReader(content))
}

func (s *session) Reset()        { s.sender, s.recipients = "", nil }
func (s *session) Logout() error { return nil }

// dice refuses one command in refuse: four of six for now, one for good, and one
// with the reply behind which a client must expect to be disconnected.
func (s *session) dice(stage string) error {
	if s.refuse == 0 || rand.IntN(s.refuse) > 0 {
		return nil
	}
	e := &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "refused at " + stage}
	switch rand.IntN(6) {
	case 0:
		e.Code, e.EnhancedCode = 550, smtp.EnhancedCode{5, 7, 1}
	case 1:
		e.Code, e.EnhancedCode = 421, smtp.EnhancedCode{4, 7, 0}
	}
	return e
}
