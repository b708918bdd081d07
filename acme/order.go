package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/posthaste-mta/posthaste/internal/atomicfile"
)

// requestTime is the longest time that one request to the authority may take.
const requestTime = 30 * time.Second

// obtain gets a certificate and writes its file.
func (k *Keeper) obtain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	key, err := account(k.cfg.Dir)
	if err != nil {
		return fmt.Errorf("the account: %w", err)
	}
	client := k.client(key)
	defer client.HTTPClient.CloseIdleConnections()
	if err := k.register(ctx, client); err != nil {
		return fmt.Errorf("registering with %s: %w", k.cfg.Directory, explained(err))
	}
	chain, certKey, err := k.order(ctx, client)
	if err != nil {
		return err
	}
	text, err := pairText(k.cfg.Directory, chain, certKey)
	if err != nil {
		return err
	}
	if err := k.fits(text); err != nil {
		return err // the certificate that there is may be good
	}
	return atomicfile.Replace(Path(k.cfg.Dir), text, nil)
}

// fits returns an error if what the authority has issued is not what was asked for.
func (k *Keeper) fits(text []byte) error {
	s, err := stateOf(text)
	if err != nil {
		return fmt.Errorf("the authority has issued a certificate that cannot be used: %w", err)
	}
	if now := k.now(); !s.due(&k.cfg, now).After(now) {
		return fmt.Errorf("the authority has issued a certificate that is for other names, or about to expire: for %q, until %s", s.names, s.end.UTC().Format(time.RFC3339))
	}
	return nil
}

func (k *Keeper) client(key *ecdsa.PrivateKey) *acme.Client {
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: k.cfg.Roots},
	}
	return &acme.Client{Key: key, DirectoryURL: k.cfg.Directory, UserAgent: "posthaste",
		HTTPClient: &http.Client{Timeout: requestTime, Transport: transport}}
}

func (k *Keeper) register(ctx context.Context, client *acme.Client) error {
	var who acme.Account
	if k.cfg.Email != "" {
		who.Contact = []string{"mailto:" + k.cfg.Email}
	}
	_, err := client.Register(ctx, &who, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil
	}
	return err
}

// order has all names authorized and the certificate issued. It returns the chain, the
// certificate first, in DER.
func (k *Keeper) order(ctx context.Context, client *acme.Client) ([][]byte, crypto.Signer, error) {
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(k.cfg.Names...))
	if err != nil {
		return nil, nil, explained(err)
	}
	uri := order.URI // later answers need not repeat it
	if order.Status != acme.StatusReady {
		if err := k.authorize(ctx, client, order); err != nil {
			return nil, nil, err
		}
		if order, err = client.WaitOrder(ctx, uri); err != nil {
			return nil, nil, explained(err)
		}
	}
	key, err := newKey(k.cfg.Keys)
	if err != nil {
		return nil, nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: k.cfg.Names}, key)
	if err != nil {
		return nil, nil, err
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	if err != nil {
		chain, err = fetch(ctx, client, uri, err)
	}
	return chain, key, err
}

// fetch gets the certificate of an order whose issue was asked for, and has failed as far as is
// known: it may be only that the answer does not say where the order is.
func fetch(ctx context.Context, client *acme.Client, uri string, why error) ([][]byte, error) {
	order, err := client.WaitOrder(ctx, uri)
	if err != nil || order.CertURL == "" {
		return nil, explained(why)
	}
	chain, err := client.FetchCert(ctx, order.CertURL, true)
	if err != nil {
		return nil, explained(err)
	}
	return chain, nil
}

// authorize shows the authority that the names of an order are ours, one after another.
func (k *Keeper) authorize(ctx context.Context, client *acme.Client, order *acme.Order) error {
	answers, err := listen(k.cfg.Challenge, k.cfg.Addresses)
	if err != nil {
		return err
	}
	defer answers.close()
	for _, uri := range order.AuthzURLs {
		z, err := client.GetAuthorization(ctx, uri)
		if err != nil {
			return explained(err)
		}
		if z.Status != acme.StatusPending {
			continue
		}
		if err := k.answer(ctx, client, z, answers); err != nil {
			return fmt.Errorf("proving that %s is ours by %v: %w", z.Identifier.Value, k.cfg.Challenge, explained(err))
		}
	}
	return nil
}

func (k *Keeper) answer(ctx context.Context, client *acme.Client, z *acme.Authorization, answers *answers) error {
	i := slices.IndexFunc(z.Challenges, func(c *acme.Challenge) bool { return c.Type == k.cfg.Challenge.String() })
	if i < 0 {
		return errors.New("the authority does not offer this challenge for it")
	}
	challenge := z.Challenges[i]
	if err := answers.prepare(client, challenge, z.Identifier.Value); err != nil {
		return err
	}
	if _, err := client.Accept(ctx, challenge); err != nil {
		return err
	}
	_, err := client.WaitAuthorization(ctx, z.URI)
	return err
}

// explained makes one sentence of what the authority has said.
func explained(err error) error {
	var failed *acme.AuthorizationError
	if errors.As(err, &failed) && len(failed.Errors) > 0 {
		err = failed.Errors[0] // of one challenge: the others were not tried
	}
	var said *acme.Error
	if errors.As(err, &said) {
		text := said.Detail
		for _, sub := range said.Subproblems {
			text += "; " + sub.Detail
		}
		return fmt.Errorf("the authority says: %s (%s, HTTP status %d)", text, said.ProblemType, said.StatusCode)
	}
	return err
}
