package acme

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/net/netutil"
)

// The limits on those who come while challenges are answered: anybody may.
const (
	visitTime      = 10 * time.Second
	visitHeader    = 8 << 10
	visitorsAtOnce = 100
)

// answers are the responses to the authority's challenge.
type answers struct {
	challenge Challenge
	servers   []*http.Server
	running   sync.WaitGroup

	mu    sync.Mutex
	files map[string]string           // HTTP-01: content by path
	certs map[string]*tls.Certificate // TLS-ALPN-01: by name
}

// listen begins to answer.
func listen(c Challenge, addresses []string) (*answers, error) {
	a := &answers{challenge: c, files: make(map[string]string), certs: make(map[string]*tls.Certificate)}
	for _, address := range addresses {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			a.close()
			return nil, fmt.Errorf("no port for the challenge %v: %w", c, err)
		}
		ln = netutil.LimitListener(ln, visitorsAtOnce)
		if c == TLSALPN01 {
			ln = tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{acme.ALPNProto}, GetCertificate: a.certificate})
		}
		server := &http.Server{Handler: a, ReadTimeout: visitTime, WriteTimeout: visitTime, MaxHeaderBytes: visitHeader,
			ErrorLog: log.New(io.Discard, "", 0)}
		server.SetKeepAlivesEnabled(false)
		a.servers = append(a.servers, server)
		a.running.Go(func() { _ = server.Serve(ln) }) // until close
	}
	return a, nil
}

func (a *answers) close() {
	for _, s := range a.servers {
		_ = s.Close() // there is nothing to save
	}
	a.running.Wait()
}

// prepare makes the answer to one challenge.
func (a *answers) prepare(client *acme.Client, c *acme.Challenge, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.challenge == TLSALPN01 {
		cert, err := client.TLSALPN01ChallengeCert(c.Token, name)
		if err != nil {
			return err
		}
		a.certs[strings.ToLower(name)] = &cert
		return nil
	}
	content, err := client.HTTP01ChallengeResponse(c.Token)
	if err != nil {
		return err
	}
	a.files[client.HTTP01ChallengePath(c.Token)] = content
	return nil
}

// ServeHTTP answers HTTP-01. Everything else does not exist.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	content, ok := a.files[r.URL.Path]
	a.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.WriteString(w, content) // the authority comes again
}

// certificate answers TLS-ALPN-01.
func (a *answers) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cert := a.certs[strings.ToLower(hello.ServerName)]; cert != nil {
		return cert, nil
	}
	return nil, errors.New("no challenge is open for this name")
}
