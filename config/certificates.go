package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/certificate"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

// ListenerTLS is the encryption of a listener.
type ListenerTLS struct {
	Use shape.Opt[inbound.TLSUse] // unset: by purpose
	Min uint16                    // version
}

// certificateParameters is the table of the parameters of [[certificate]].
var certificateParameters = []parameter[certificate.Pair]{
	define("cert", filePath("/etc/posthaste/cert.pem"), func(p *certificate.Pair) *string { return &p.Cert }, "",
		"The PEM file with the certificate of this server, followed by those of the authorities between it and the root.",
		"Set it to the file that your authority's client writes, such as fullchain.pem."),
	define("key", filePath("/etc/posthaste/key.pem"), func(p *certificate.Pair) *string { return &p.Key }, "",
		"The PEM file with the private key of the certificate, which must not be readable by all users.",
		"Set it to the file that your authority's client writes, such as privkey.pem; a file with both may be given twice."),
}

func standardCertificate() certificate.Pair { return certificate.Pair{} }

func certificateFile(p *certificate.Pair) string { return p.Cert }

func tlsParameters() []parameter[Listener] {
	return []parameter[Listener]{
		define("tls", opt(words(word[inbound.TLSUse]{"none", inbound.TLSNone}, word[inbound.TLSUse]{"may", inbound.TLSMay}, word[inbound.TLSUse]{"require", inbound.TLSRequire})),
			func(l *Listener) *shape.Opt[inbound.TLSUse] { return &l.TLS.Use }, shape.Opt[inbound.TLSUse]{},
			"The use of STARTTLS: none does not offer it, may offers it, and require refuses all mail without it; by default, relay offers it if there is a [[certificate]], and submission requires it.",
			"Set it to require if all clients can encrypt; port 25 of a host that receives mail from the Internet must not require it (RFC 3207)."),
		define("tls_min", words(word[uint16]{"1.0", 0x0301}, word[uint16]{"1.1", 0x0302}, word[uint16]{"1.2", 0x0303}, word[uint16]{"1.3", 0x0304}),
			func(l *Listener) *uint16 { return &l.TLS.Min }, 0x0303,
			"The lowest version of TLS that clients may use.",
			"Lower it on port 25 if old servers send mail, since the alternative for them is no encryption at all."),
	}
}

// clientCertificate is a fingerprint, or a file with fingerprints.
func clientCertificate() kind[string] {
	return text("fingerprint", `such as ["AB:CD:…"], 64 hexadecimal digits of SHA-256 with or without colons, or the path of a file with one in each line`, func(s string) (string, string) {
		if _, ok := certificate.ParseFingerprint(s); ok || filepath.IsAbs(s) {
			return "", ""
		}
		hint := "openssl x509 -in FILE -noout -fingerprint -sha256 prints it"
		if len(strings.ReplaceAll(s, ":", "")) == 40 || len(strings.ReplaceAll(s, ":", "")) == 32 {
			hint = "this has the length of SHA-1 or MD5; " + hint
		}
		return tomlfile.QuoteText(s) + " is neither a fingerprint nor an absolute path", hint
	})
}

// certificates creates the certificates that the file names.
func (l *loader) certificates(all *tomlfile.Entry) {
	loadList(l, tableCertificate, all, certificateParameters, standardCertificate, func(t *tomlfile.Table) string { return textOf(t, "cert") },
		func(t *tomlfile.Table, name string, p certificate.Pair, whole bool) {
			l.c.Certificates = append(l.c.Certificates, p)
			if !whole {
				return
			}
			about := l.complainer(tableCertificate, name, t)
			if p.Cert == "" {
				about("cert", "the file of the certificate is missing", `add such as cert = "/etc/posthaste/fullchain.pem"`)
			}
			if p.Key == "" {
				about("key", "the file of the private key is missing", `add such as key = "/etc/posthaste/privkey.pem"`)
			}
		})
}

// UseOfTLS returns how a listener uses TLS.
func (c *Config) UseOfTLS(l *Listener) inbound.TLSUse {
	switch {
	case l.Purpose == inbound.PurposeSubmissions:
		return inbound.TLSImplicit
	case l.TLS.Use.Set:
		return l.TLS.Use.Value
	case l.Address.Unix != "":
		return inbound.TLSNone
	case l.Purpose == inbound.PurposeSubmission:
		return inbound.TLSRequire
	case c.Certifies():
		return inbound.TLSMay
	}
	return inbound.TLSNone
}

// checkTLS complains about TLS that does not fit the listener, or that there is no
// certificate for.
func (l *loader) checkTLS(one *Listener, about func(parameter, message, hint string)) {
	use := l.c.UseOfTLS(one)
	switch {
	case one.Purpose == inbound.PurposeSubmissions && one.TLS.Use.Set:
		about("tls", "it has no effect on submissions, where TLS comes first", "remove it")
	case one.Address.Unix != "" && use != inbound.TLSNone:
		about("tls", "nothing can listen in on a unix socket", "remove it, or set an address and a port")
	case use != inbound.TLSNone && !l.c.Certifies():
		name := "tls"
		if !one.TLS.Use.Set {
			name = "purpose"
		}
		hint := "add [[certificate]] with cert and key, or acme_names"
		if use == inbound.TLSRequire && !one.TLS.Use.Set {
			hint += `, or set tls = "none" on a network where nothing can be intercepted`
		}
		about(name, "this listener needs a certificate, and there is none", hint)
	}
}

// LoadCertificates reads the files of [[certificate]], and what was obtained by ACME.
func (c *Config) LoadCertificates() (*certificate.Set, error) {
	set, err := certificate.Load(c.Certificates)
	if err != nil {
		return nil, err
	}
	return c.withObtained(set)
}

// fingerprintsMax is the size of the largest file of fingerprints: ten thousand fit.
const fingerprintsMax = 1 << 20

// ClientCertificates returns the fingerprints of relay_clientcerts, those in files
// included.
func (c *Config) ClientCertificates() ([]certificate.Fingerprint, error) {
	var all []certificate.Fingerprint
	var failures []error
	for _, entry := range c.RelayClientCerts {
		if f, ok := certificate.ParseFingerprint(entry); ok {
			all = append(all, f)
			continue
		}
		some, err := readFingerprints(entry)
		if err != nil {
			failures = append(failures, fmt.Errorf("relay_clientcerts: %w", err))
		}
		all = append(all, some...)
	}
	return all, errors.Join(failures...)
}

// readFingerprints reads a file with a fingerprint in each line, and anything behind it.
func readFingerprints(path string) ([]certificate.Fingerprint, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > fingerprintsMax {
		return nil, fmt.Errorf("%s is larger than %s", path, FormatSize(fingerprintsMax))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []certificate.Fingerprint
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		f, ok := certificate.ParseFingerprint(fields[0])
		if !ok {
			return nil, fmt.Errorf("%s:%d: %.80q is not a SHA-256 fingerprint of 64 hexadecimal digits", path, number, fields[0])
		}
		all = append(all, f)
	}
	return all, nil
}

// ExpiryNotice is the time before its expiry from which on a certificate causes warnings.
const ExpiryNotice = 14 * 24 * time.Hour

// CheckFiles reads the files that the configuration names, besides itself. It returns
// those that cannot be used as an error, and warnings of certificates that expire soon, of programs and users
// that are not there, and of what is in files and cannot be used.
func (c *Config) CheckFiles(now time.Time) ([]Warning, error) {
	set, err := c.LoadCertificates()
	_, clients := c.ClientCertificates()
	_, rewriting := c.LoadRewriting()
	accounts, logins := c.OpenUsers()
	_, remote := c.OpenTokens()
	_, _, certification := c.Certification()
	known, lines, credentials := c.readCredentials()
	_, classes := c.Replies()
	_, verpSecrets := c.LoadVERPSecrets()
	_, signatures := keyring.Load(c.Keyring())
	if err := errors.Join(credentials, remote, verpSecrets, err, clients, rewriting, logins, certification, classes, signatures, c.checkIdentities()); err != nil {
		return nil, err
	}
	return slices.Concat(c.ExpiryWarnings(set, now), c.missingPrograms(), c.missingUsers(), c.unreachableMilters(), c.noUsers(accounts),
		c.unusableCredentials(known, lines), c.plainExpressions()), nil
}

// checkIdentities returns what is wrong with the files of TLS to receivers. What several
// transports inherit is reported once.
func (c *Config) checkIdentities() error {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		if !t.Type.connects() {
			continue
		}
		err := t.SMTP.TLS.CheckFiles()
		if err != nil && !slices.ContainsFunc(wrong, func(other error) bool { return other.Error() == err.Error() }) {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// missingPrograms returns warnings of programs of transports that are not there: the daemon
// starts without them, and their mail waits.
func (c *Config) missingPrograms() []Warning {
	var list []Warning
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		if t.Type != TypePipe {
			continue
		}
		info, err := os.Stat(t.Pipe.Command[0])
		wrong := ""
		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong = "there is no such file"
		case err != nil:
			continue // the daemon's user may see more than this one
		case info.IsDir() || info.Mode().Perm()&0o111 == 0:
			wrong = "this is not a program (no permission to execute it)"
		default:
			continue
		}
		key := fullName(transportTable(name), "command")
		list = append(list, Warning{Key: key, Line: c.lines[key], Message: fmt.Sprintf("%s: %s; mail of this transport waits until there is one", t.Pipe.Command[0], wrong)})
	}
	return list
}

// ExpiryWarnings returns warnings of certificates that have expired, or soon will.
func (c *Config) ExpiryWarnings(set *certificate.Set, now time.Time) []Warning {
	var list []Warning
	for _, n := range set.Expiring(now.Add(ExpiryNotice)) {
		key := fullName(tableCertificate, n.File)
		list = append(list, Warning{Key: key, Line: c.lines[key], Message: n.Text(now)})
	}
	return list
}

// certificateTables shows the certificates in their order.
func (s *shower) certificateTables() []shownTable {
	return showList(s, tableCertificate, s.c.Certificates, certificateFile, standardCertificate, certificateParameters)
}
