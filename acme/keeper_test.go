package acme

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// An authority is a test server of the authors of Let's Encrypt, and the name server that it asks.
type authority struct {
	directory string
	roots     *x509.CertPool
	answers   string // where it looks for answers to challenges
}

func TestMain(m *testing.M) {
	os.Setenv("PEBBLE_VA_NOSLEEP", "1")      //nolint:errcheck // or it takes longer
	os.Setenv("PEBBLE_WFE_NONCEREJECT", "0") //nolint:errcheck // what it rejects is asked again seconds later
	os.Exit(m.Run())
}

func newAuthority(t *testing.T, life time.Duration) *authority {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	port := freePort(t)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "all", ValidityPeriod: uint64(life / time.Second)}})
	validator := va.New(quiet, port, port, false, nameServer(t), store)
	front := wfe.New(quiet, store, validator, issuer, nil, false, false, 0, 0)
	server := httptest.NewTLSServer(front.Handler())
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &authority{directory: server.URL + wfe.DirectoryPath, roots: roots, answers: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // it has served its purpose
	return ln.Addr().(*net.TCPAddr).Port
}

// nameServer has this host's address for all names but those below "elsewhere.test", which do
// not exist.
func nameServer(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // it asks by TCP
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		name := q.Question[0].Name
		switch {
		case strings.HasSuffix(name, "elsewhere.test."):
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			rr, _ := dns.NewRR(name + " 60 IN A 127.0.0.1")
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m) // the test sees that nothing comes
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown(); <-done })
	return ln.Addr().String()
}

// A lines is a log that tests read.
type lines struct {
	wrote chan struct{} // something, since this was read last

	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// keep runs a keeper until stop is called. Each call of renewed and each failure is counted.
func keep(t *testing.T, cfg Config, now func() time.Time) (renewed chan struct{}, said *lines, k *Keeper) {
	t.Helper()
	said, renewed = &lines{wrote: make(chan struct{}, 1)}, make(chan struct{}, 100)
	k = New(cfg, slog.New(slog.NewTextHandler(said, nil)), func() { renewed <- struct{}{} })
	k.first = 10 * time.Millisecond
	if now != nil {
		k.now = now
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return renewed, said, k
}

func wait(t *testing.T, what string, c <-chan struct{}, said *lines) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: it does not come to that\n%s", what, said)
	}
}

func leafOf(t *testing.T, dir string) (*x509.Certificate, tls.Certificate) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(Path(dir), Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf, pair
}

// A certificate for all names is obtained by either challenge, with either key; its file can be
// read by its owner only. A second keeper of the directory finds it good. A clock that shows two
// thirds of its life brings another.
func TestObtainAndRenew(t *testing.T) {
	for _, c := range []struct {
		challenge Challenge
		keys      KeyType
	}{{HTTP01, ECDSA}, {TLSALPN01, RSA}} {
		t.Run(c.challenge.String(), func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t, 90*24*time.Hour)
			cfg := Config{Names: []string{"mail.test", "smtp.mail.test"}, Email: "postmaster@mail.test", Directory: a.directory, Roots: a.roots,
				Challenge: c.challenge, Keys: c.keys, Addresses: []string{a.answers}, Dir: filepath.Join(t.TempDir(), "acme")}
			renewed, said, _ := keep(t, cfg, nil)
			wait(t, "the first certificate", renewed, said)
			first, pair := leafOf(t, cfg.Dir)
			if !sameNames(first.DNSNames, cfg.Names) || len(pair.Certificate) < 2 {
				t.Errorf("it is for %v, with a chain of %d", first.DNSNames, len(pair.Certificate))
			}
			_, isRSA := first.PublicKey.(*rsa.PublicKey)
			_, isECDSA := first.PublicKey.(*ecdsa.PublicKey)
			if isRSA != (c.keys == RSA) || isECDSA != (c.keys == ECDSA) {
				t.Errorf("its key is a %T", first.PublicKey)
			}
			for _, file := range []string{Path(cfg.Dir), filepath.Join(cfg.Dir, accountFile)} {
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: mode %v, error %v", file, info.Mode(), err)
				}
			}
			long := newAuthority(t, 365*24*time.Hour)
			content, err := os.ReadFile(Path(cfg.Dir))
			if err != nil {
				t.Fatal(err)
			}
			content = bytes.Replace(content, []byte(cfg.Directory), []byte(long.directory), 1) // as if it had issued it
			if err := os.WriteFile(Path(cfg.Dir), content, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg.Directory, cfg.Roots, cfg.Addresses = long.directory, long.roots, []string{long.answers}
			var ahead atomic.Int64
			renewed, said, k := keep(t, cfg, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
			k.Hurry()
			ahead.Store(int64(61 * 24 * time.Hour))
			k.Hurry()
			wait(t, "the second certificate", renewed, said)
			if second, _ := leafOf(t, cfg.Dir); second.SerialNumber.Cmp(first.SerialNumber) == 0 {
				t.Error("it was not renewed")
			}
		})
	}
}

// What goes wrong is logged with the reason, leaves the certificate that there is as it was, and
// is tried again.
func TestFailures(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) //nolint:errcheck // nothing was said
	for _, c := range []struct {
		name, want string
		change     func(*Config)
	}{
		{"a name that does not exist", "proving that mail.elsewhere.test is ours by http-01", func(c *Config) { c.Names = []string{"mail.elsewhere.test"} }},
		{"the port is taken", "no port for the challenge http-01", func(c *Config) { c.Addresses = []string{taken.Addr().String()} }},
		{"the certificate of the authority is not trusted", "certificate signed by unknown authority", func(c *Config) { c.Roots = x509.NewCertPool() }},
		{"the authority is not there", "connection refused", func(c *Config) { c.Directory = "https://127.0.0.1:1/dir" }},
		{"the account is damaged", "account.key is not a PEM file; remove it", func(c *Config) {
			if err := os.WriteFile(filepath.Join(c.Dir, accountFile), []byte("junk"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"a name that cannot be proven so", "the authority does not offer this challenge for it", func(c *Config) { c.Names = []string{"*.mail.test"} }},
		{"a name that no authority certifies", "the authority says: ", func(c *Config) { c.Names = []string{"a..test"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t, 90*24*time.Hour)
			cfg := Config{Names: []string{"mail.test"}, Directory: a.directory, Roots: a.roots, Addresses: []string{a.answers}, Dir: t.TempDir()}
			old := []byte("what was there")
			if err := os.WriteFile(Path(cfg.Dir), old, 0o600); err != nil {
				t.Fatal(err)
			}
			c.change(&cfg)
			_, said, _ := keep(t, cfg, nil)
			twice := func() bool {
				return strings.Contains(said.String(), c.want) && strings.Count(said.String(), "no certificate was obtained") >= 2
			}
			for !twice() {
				wait(t, c.want, said.wrote, said)
			}
			if now, err := os.ReadFile(Path(cfg.Dir)); err != nil || !bytes.Equal(now, old) {
				t.Errorf("the file is %q now, error %v", now, err)
			}
		})
	}
}

// A certificate that is not what was asked for does not take the place of one that may be good:
// the file was replaced before anybody looked.
func TestUnfit(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, 90*24*time.Hour)
	cfg := Config{Names: []string{"mail.test"}, Directory: a.directory, Roots: a.roots, Addresses: []string{a.answers}, Dir: t.TempDir()}
	old := []byte("what was there")
	if err := os.WriteFile(Path(cfg.Dir), old, 0o600); err != nil {
		t.Fatal(err)
	}
	// To a clock that is a year ahead it has expired.
	_, said, _ := keep(t, cfg, func() time.Time { return time.Now().Add(365 * 24 * time.Hour) })
	for !strings.Contains(said.String(), "the authority has issued a certificate that is for other names, or about to expire") {
		wait(t, "that it is refused", said.wrote, said)
	}
	if now, err := os.ReadFile(Path(cfg.Dir)); err != nil || !bytes.Equal(now, old) {
		t.Errorf("the file is %.100q now, error %v", now, err)
	}
}

// A pause is measured by the clock on the wall, since the other one stands still while the machine
// sleeps.
func TestDeadline(t *testing.T) {
	if now := time.Now(); deadline(now, time.Hour) != now.Round(0).Add(time.Hour) || deadline(now, time.Hour) == now.Add(time.Hour) {
		t.Error("it has a reading of the monotonic clock")
	}
}

// A certificate is due when less than a third of its life is left, when it is for other names, of
// another authority or with another key, and when there is none.
func TestDue(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good := now.Add(30 * 24 * time.Hour)
	s := state{begin: now.Add(-30 * 24 * time.Hour), end: now.Add(60 * 24 * time.Hour), names: []string{"b.test", "A.test"}, authority: "https://a.test/dir"}
	unmarked := s
	unmarked.authority = ""
	for _, c := range []struct {
		name  string
		state state
		names []string
		other Config
		want  time.Time
	}{
		{"good", s, []string{"a.test", "b.test"}, Config{}, good},
		{"a name twice", s, []string{"a.test", "b.test", "a.test"}, Config{}, good},
		{"a name more", s, []string{"a.test", "b.test", "c.test"}, Config{}, now},
		{"a name less", s, []string{"a.test"}, Config{}, now},
		{"another authority", s, []string{"a.test", "b.test"}, Config{Directory: "https://staging.test/dir"}, now},
		{"an authority that is not known", unmarked, []string{"a.test", "b.test"}, Config{}, good},
		{"another key", s, []string{"a.test", "b.test"}, Config{Keys: RSA}, now},
		{"none", state{}, []string{"a.test"}, Config{}, now},
	} {
		want := Config{Names: c.names, Directory: cmp.Or(c.other.Directory, "https://a.test/dir"), Keys: c.other.Keys}
		if got := c.state.due(&want, now); !got.Equal(c.want) {
			t.Errorf("%s: due at %v, want %v", c.name, got, c.want)
		}
	}
}
