package config

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/acme"
	"github.com/posthaste-mta/posthaste/internal/certificate"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/smtp"
)

// ACME configures a certificate that is obtained from an authority.
type ACME struct {
	Names     []string
	Email     string
	Directory string
	Challenge acme.Challenge
	Addresses []netip.AddrPort
	Keys      acme.KeyType
	CAFile    string
}

// acmeDirectory is the directory of the account and the certificate, in the queue directory.
const acmeDirectory = "acme"

func acmeParameters() []parameter[Config] {
	return []parameter[Config]{
		define("acme_names", list(certifiedName(), "names"), func(c *Config) *[]string { return &c.ACME.Names }, []string{},
			"The names of this server for which a certificate is obtained by ACME, and renewed; setting it accepts the terms of service of the authority.",
			"Set it to the names that clients connect to, unless another program writes the files of a [[certificate]]."),
		define("acme_email", optional(mailbox(), "for none"), func(c *Config) *string { return &c.ACME.Email }, "",
			"The address that the authority may write to.",
			"Set it to the address of the person who looks after this server."),
		define("acme_directory", text("URL", `such as "https://acme.example.com/directory"`, checkDirectory), func(c *Config) *string { return &c.ACME.Directory }, acme.DefaultDirectory,
			"The directory of the authority.",
			"Set it to the URL of another authority, or of the staging server of Let's Encrypt for a trial."),
		define("acme_challenge", words(word[acme.Challenge]{"http-01", acme.HTTP01}, word[acme.Challenge]{"tls-alpn-01", acme.TLSALPN01}), func(c *Config) *acme.Challenge { return &c.ACME.Challenge }, acme.HTTP01,
			"The challenge with which the authority verifies that the names belong to this server: http-01 uses HTTP on port 80, tls-alpn-01 TLS on port 443.",
			"Set it to tls-alpn-01 if port 80 belongs to a web server, or cannot be reached."),
		define("acme_addresses", list(listener(), "addresses"), func(c *Config) *[]netip.AddrPort { return &c.ACME.Addresses }, []netip.AddrPort{},
			"The addresses and ports on which challenges are answered, only while a certificate is being obtained; none means port 80 or 443 of all addresses.",
			"Set it if a proxy or address translator forwards these ports."),
		define("acme_key", words(word[acme.KeyType]{"ecdsa", acme.ECDSA}, word[acme.KeyType]{"rsa", acme.RSA}), func(c *Config) *acme.KeyType { return &c.ACME.Keys }, acme.ECDSA,
			"The algorithm of the certificate's key.",
			"Set it to rsa if old servers that must send you mail cannot use others."),
		define("acme_ca_file", optional(filePath("/etc/posthaste/authority.pem"), "for those of the system"), func(c *Config) *string { return &c.ACME.CAFile }, "",
			"The PEM file with the root certificates that are trusted for the server of acme_directory.",
			"Set it for an authority of your own."),
	}
}

// certifiedName is a name that authorities certify.
func certifiedName() kind[string] {
	return text("name", `such as ["mail.example.com"]`, func(s string) (string, string) {
		switch {
		case strings.HasPrefix(s, "*."):
			return tomlfile.QuoteText(s) + " stands for many names, which neither challenge proves", "write each name, or have another program obtain the certificate and set [[certificate]]"
		case !smtp.ValidDomain(s):
			return tomlfile.QuoteText(s) + " is not a domain name", ""
		case !strings.Contains(s, "."):
			return tomlfile.QuoteText(s) + " is not a full name", "write it with its domain, as in " + tomlfile.QuoteText(s+".example.com")
		}
		return "", ""
	})
}

func checkDirectory(s string) (string, string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return tomlfile.QuoteText(s) + " is not the URL of a directory", "write it with https:// and without a password"
	}
	return "", ""
}

// acmeFile is the file of the certificate that was obtained.
func (c *Config) acmeFile() string { return acme.Path(c.AcmePath()) }

// AcmePath is the directory of the account and the certificate of ACME.
func (c *Config) AcmePath() string { return filepath.Join(c.QueueDirectory, acmeDirectory) }

// Certifies reports whether there are, or will be, certificates for listeners.
func (c *Config) Certifies() bool { return len(c.Certificates) > 0 || len(c.ACME.Names) > 0 }

// Certification returns what package acme needs; ok is false if no certificate must be obtained.
func (c *Config) Certification() (_ acme.Config, ok bool, err error) {
	a := c.ACME
	cfg := acme.Config{Email: a.Email, Directory: a.Directory, Challenge: a.Challenge, Keys: a.Keys, Dir: c.AcmePath()}
	for _, name := range a.Names {
		cfg.Names = append(cfg.Names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	for _, at := range a.Addresses {
		cfg.Addresses = append(cfg.Addresses, at.String())
	}
	if len(cfg.Addresses) == 0 {
		cfg.Addresses = []string{fmt.Sprintf(":%d", a.Challenge.Port())}
	}
	if a.CAFile != "" {
		text, err := os.ReadFile(a.CAFile)
		if err != nil {
			return cfg, false, fmt.Errorf("acme_ca_file: %w", err)
		}
		cfg.Roots = x509.NewCertPool()
		if !cfg.Roots.AppendCertsFromPEM(text) {
			return cfg, false, fmt.Errorf("acme_ca_file: %s has no certificate in PEM", a.CAFile)
		}
	}
	return cfg, len(cfg.Names) > 0, nil
}

// withObtained adds the certificate that was obtained. As long as there is none, or it is
// damaged, a self-signed one stands in for it, which suffices for clients that encrypt without
// verifying.
func (c *Config) withObtained(set *certificate.Set) (*certificate.Set, error) {
	if len(c.ACME.Names) == 0 {
		return set, nil
	}
	pair := certificate.Pair{Cert: c.acmeFile(), Key: c.acmeFile()}
	if with, err := set.WithPair(pair); err == nil {
		return with, nil
	}
	return set.WithStandIn(c.ACME.Names, time.Now())
}
