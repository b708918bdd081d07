package acme

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/atomicfile"
)

const (
	accountFile     = "account.key"
	certificateFile = "certificate.pem"
)

// Path returns the file of the certificate in a directory: its chain and its key.
func Path(dir string) string { return filepath.Join(dir, certificateFile) }

// A state describes the present certificate.
type state struct {
	begin, end time.Time // of its life; zero if there is none
	names      []string
	keys       KeyType
	authority  string // the URL of its directory; "" if the file does not say it
}

// authorityMark begins the line of the certificate's file that says who has issued it; what
// reads PEM passes over it.
const authorityMark = "Authority: "

// readState reads the certificate's file. Without one, or with one that is damaged, the state is
// zero: a new certificate repairs it.
func readState(path string) state {
	content, err := os.ReadFile(path)
	if err != nil {
		return state{}
	}
	s, err := stateOf(content)
	if err != nil {
		return state{}
	}
	return s
}

// stateOf returns the state that the content of a certificate's file shows. The error says why
// it has no certificate that can be used.
func stateOf(content []byte) (state, error) {
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return state{}, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return state{}, err
	}
	s := state{begin: leaf.NotBefore, end: leaf.NotAfter, names: leaf.DNSNames}
	if _, ok := pair.PrivateKey.(*rsa.PrivateKey); ok {
		s.keys = RSA
	}
	line, _, _ := strings.Cut(string(content), "\n")
	if url, ok := strings.CutPrefix(line, authorityMark); ok {
		s.authority = url
	}
	return s, nil
}

// due returns when a certificate should be renewed: now, if it is not the wanted one. A certificate of
// another authority is not: it may come from a test authority, which clients do not trust.
func (s state) due(want *Config, now time.Time) time.Time {
	if s.end.IsZero() || !sameNames(s.names, want.Names) || s.keys != want.Keys || s.authority != "" && s.authority != want.Directory {
		return now
	}
	return s.end.Add(-s.end.Sub(s.begin) / 3)
}

func sameNames(a, b []string) bool {
	canonical := func(names []string) []string {
		var all []string
		for _, name := range names {
			all = append(all, strings.ToLower(name))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	return slices.Equal(canonical(a), canonical(b))
}

// account returns the key of the account, which is made if there is none. A damaged key is an error
// instead of being replaced: without the old one we cannot prove that earlier certificates were ours.
func account(dir string) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(dir, accountFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		text, err := keyText(key)
		if err != nil {
			return nil, err
		}
		return key, atomicfile.Replace(path, text, nil)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file; remove it for a new account", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it for a new account", path, err)
	}
	of, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s has a key of type %T, not ECDSA; remove it for a new account", path, key)
	}
	return of, nil
}

// newKey makes a certificate's key.
func newKey(k KeyType) (crypto.Signer, error) {
	if k == RSA {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func keyText(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// pairText is the content of the certificate's file.
func pairText(authority string, chain [][]byte, key crypto.Signer) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(authorityMark + authority + "\n")
	for _, der := range chain {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, err
		}
	}
	text, err := keyText(key)
	return append(b.Bytes(), text...), err
}
