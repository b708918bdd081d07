package courier

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crypto/tls"
	"crypto/x509"

	"github.com/posthaste-mta/posthaste/tlsrpt"
)

var errDown = errors.New("down")

// A world is what a courier sees of the DNS, of mail and of web servers.
type world struct {
	mu     sync.Mutex
	txt    map[string][]string // nil: the DNS is down
	addrs  map[string][]netip.Addr
	mailed []Message
	refuse error         // of Mail
	hold   chan struct{} // Mail waits until it is closed; nil: it does not
	log    bytes.Buffer
	dialed []string
}

func (w *world) TXT(_ context.Context, name string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.txt == nil {
		return nil, errDown
	}
	return w.txt[name], nil
}

func (w *world) Addrs(_ context.Context, host string) ([]netip.Addr, error) {
	return w.addrs[host], nil
}

func (w *world) mail(_ context.Context, m Message) error {
	w.mu.Lock()
	if hold := w.hold; hold != nil {
		w.mu.Unlock()
		<-hold
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	w.mailed = append(w.mailed, m)
	return nil
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) said(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

// sent returns how many messages were mailed.
func (w *world) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mailed)
}

func (w *world) config(file string) Config {
	return Config{Identity: Identity{Organization: "Example", From: "tls-reports@origin.test", Hostname: "mta.origin.test"}, Resolver: w, Mail: w.mail, File: file,
		Logger: slog.New(slog.NewTextHandler(w, nil))}
}

// courier starts one, which ends with the returned function.
func (w *world) courier(t *testing.T, cfg Config) (*Courier, func()) {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	return c, func() { cancel(); <-done; c.Close() }
}

var (
	policy = tlsrpt.Policy{Type: tlsrpt.STS, Text: []string{"version: STSv1", "mode: testing", "mx: mx.d.test", "max_age: 86400"}, Domain: "d.test", MX: []string{"mx.d.test"}}
	expiry = tlsrpt.Failure{Result: tlsrpt.CertificateExpired, SendingIP: "192.0.2.1", MX: "mx.d.test", Receiving: "192.0.2.2"}
)

func mailto(addresses ...string) []string {
	return []string{"v=TLSRPTv1; rua=mailto:" + strings.Join(addresses, ",mailto:")}
}

// report reads a report out of a message as its recipient would.
func report(t *testing.T, m *Message) (r tlsrpt.Report, header mail.Header) {
	t.Helper()
	msg, err := mail.ReadMessage(bytes.NewReader(m.Content))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/report" || params["report-type"] != "tlsrpt" {
		t.Fatal(kind, params, err)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	if p, err := parts.NextPart(); err != nil || !strings.HasPrefix(p.Header.Get("Content-Type"), "text/plain") {
		t.Fatal(err)
	}
	p, err := parts.NextPart()
	if err != nil || p.Header.Get("Content-Type") != "application/tlsrpt+gzip" || !strings.HasSuffix(p.FileName(), ".json.gz") {
		t.Fatal(p, err)
	}
	r = unpack(t, base64.NewDecoder(base64.StdEncoding, p))
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("a third part, %v", err)
	}
	return r, msg.Header
}

func unpack(t *testing.T, packed io.Reader) (r tlsrpt.Report) {
	t.Helper()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A day passes, with a restart in it: one report is mailed in the hours after midnight, with all
// that was counted, and never again, whatever restarts.
func TestDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{txt: map[string][]string{"_smtp._tls.d.test": mailto("a@r.test", "b@r.test"), "_smtp._tls.odd.test": {"v=TLSRPTv1; rua=ftp://x"}}}
		file := filepath.Join(t.TempDir(), "tls-reports")
		c, stop := w.courier(t, w.config(file))
		today := tlsrpt.DayOf(time.Now())
		c.Success("d.test", policy)
		c.Failure("d.test", policy, expiry)
		c.Success("silent.test", policy)
		c.Success("odd.test", policy)
		stop()
		c, stop = w.courier(t, w.config(file))
		c.Failure("d.test", policy, expiry)
		time.Sleep(time.Until(today.Range().End))
		synctest.Wait()
		if w.sent() != 0 {
			t.Error("a report was sent before the day was over")
		}
		stop()
		c, stop = w.courier(t, w.config(file))
		time.Sleep(4*time.Hour + 2*time.Minute)
		synctest.Wait()
		if w.sent() != 2 || w.mailed[0].To != "a@r.test" || w.mailed[1].To != "b@r.test" {
			t.Fatalf("%d messages", w.sent())
		}
		r, h := report(t, &w.mailed[0])
		if len(r.Sections) != 1 || r.Sections[0].Summary != (tlsrpt.Summary{Successful: 1, Failed: 2}) || r.Sections[0].Failures[0].MX != "mx.d.test" ||
			!r.Range.Start.Equal(today.Range().Start) || r.Contact != "tls-reports@origin.test" || r.Organization != "Example" {
			t.Errorf("%+v", r)
		}
		for name, want := range map[string]string{"TLS-Report-Domain": "d.test", "TLS-Report-Submitter": "origin.test", "TLS-Required": "No", "To": "<a@r.test>",
			"Subject": "Report Domain: d.test Submitter: origin.test Report-ID: <" + r.ID + ">"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if len(c.Days()) != 0 || w.said("odd.test does not say where to") != 1 {
			t.Errorf("%v; %s", c.Days(), w.log.String())
		}
		stop()
		_, stop = w.courier(t, w.config(file))
		time.Sleep(30 * time.Hour)
		stop()
		if w.sent() != 2 {
			t.Errorf("%d messages", w.sent())
		}
	})
}

// A process that dies right after a report was handed over does not send it again, and sends
// the one that it had not come to.
func TestDeathBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{txt: map[string][]string{"_smtp._tls.d.test": mailto("a@r.test", "b@r.test")}}
		cfg := w.config(filepath.Join(t.TempDir(), "tls-reports"))
		type death struct{}
		cfg.Mail = func(ctx context.Context, m Message) error {
			if w.sent() == 1 {
				panic(death{})
			}
			return w.mail(ctx, m)
		}
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.Success("d.test", policy)
		key := taskKey{tlsrpt.DayOf(time.Now()), "d.test"}
		c.save()
		func() {
			defer func() {
				if v := recover(); v != (death{}) {
					t.Errorf("%v", v)
				}
			}()
			c.run(context.Background(), key)
		}()
		w.txt["_smtp._tls.d.test"] = mailto("a@r.test", "b@r.test", "c@r.test")
		time.Sleep(30 * time.Hour)
		_, stop := w.courier(t, w.config(cfg.File))
		synctest.Wait()
		stop()
		if w.sent() != 2 || w.mailed[1].To != "c@r.test" {
			t.Errorf("%d messages", w.sent())
		}
	})
}

// While a report is on its way for hours, counts are kept as ever. A process that is killed then has lost ten minutes of
// them, and does not send again what it was sending.
func TestKeepsCountsWhileItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{txt: map[string][]string{"_smtp._tls.d.test": mailto("a@r.test"), "_smtp._tls.e.test": mailto("b@r.test")}, hold: make(chan struct{})}
		file := filepath.Join(t.TempDir(), "tls-reports")
		c, stop := w.courier(t, w.config(file))
		c.Success("d.test", policy)
		time.Sleep(time.Until(tlsrpt.DayOf(time.Now()).Range().End) + 4*time.Hour + 2*time.Minute)
		synctest.Wait() // until it is being sent
		today := tlsrpt.DayOf(time.Now())
		c.Success("e.test", policy)
		time.Sleep(saveEvery)
		synctest.Wait()
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		killed := &world{txt: w.txt}
		copied := filepath.Join(t.TempDir(), "tls-reports")
		if err := os.WriteFile(copied, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		again, end := killed.courier(t, killed.config(copied))
		if days := again.Domains(today); len(days) != 1 || days[0] != "e.test" {
			t.Errorf("what was counted during ten minutes is lost: %q", days)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		end()
		if killed.sent() != 0 {
			t.Error("the report is sent a second time")
		}
		close(w.hold)
		synctest.Wait()
		stop()
		if w.sent() != 1 {
			t.Errorf("%d reports were sent", w.sent())
		}
	})
}

// What fails is tried again for a day, and then dropped; a message that no key signs is not.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuse  error
		dns     bool
		mended  time.Duration // after the end of the day
		sent    int
		dropped int
	}{
		{"spool, repaired", errDown, true, 12 * time.Hour, 1, 0},
		{"spool, never", errDown, true, 0, 0, 1},
		{"DNS, repaired", nil, false, 12 * time.Hour, 1, 0},
		{"DNS, never", nil, false, 0, 0, 1},
		{"unsigned", ErrUnsigned, true, 12 * time.Hour, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				txt := map[string][]string{"_smtp._tls.d.test": mailto("a@r.test")}
				w := &world{refuse: c.refuse}
				if c.dns {
					w.txt = txt
				}
				k, stop := w.courier(t, w.config(filepath.Join(t.TempDir(), "tls-reports")))
				k.Success("d.test", policy)
				time.Sleep(24 * time.Hour)
				if c.mended > 0 {
					time.Sleep(c.mended)
					w.mu.Lock()
					w.refuse, w.txt = nil, txt
					w.mu.Unlock()
				}
				time.Sleep(40 * time.Hour)
				stop()
				if w.sent() != c.sent || w.said("dropped") != c.dropped || len(k.Days()) != 0 {
					t.Errorf("%d sent, %d dropped, %v\n%s", w.sent(), w.said("dropped"), k.Days(), w.log.String())
				}
			})
		})
	}
}

// Reports go to web servers by POST, only to addresses that are permitted; what the server refuses
// is an error, and no redirect is followed.
func TestPost(t *testing.T) {
	var got []tlsrpt.Report
	status := http.StatusCreated
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/tlsrpt+gzip" || r.URL.Path != "/v1/report" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		got = append(got, unpack(t, r.Body))
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader(status)
	}))
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	web.StartTLS()
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate()) // for example.com
	w := &world{addrs: map[string][]netip.Addr{"example.com": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.32.7")}, "inside.test": {netip.MustParseAddr("10.1.2.3")}}}
	cfg := w.config("")
	cfg.Roots = roots
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.dialed = append(w.dialed, address)
		return new(net.Dialer).DialContext(ctx, network, web.Listener.Addr().String())
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Failure("d.test", policy, expiry)
	r, _ := c.Report(tlsrpt.DayOf(time.Now()), "d.test")
	text, err := compress(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		uri    string
		status int
		want   string
		got    int
	}{
		{"https://example.com/v1/report", 201, "", 1},
		{"https://example.com:8443/v1/report", 200, "", 1},
		{"https://example.com/v1/report", 302, "302", 1},
		{"https://example.com/v1/report", 500, "500", 1},
		{"https://example.com:0/v1/report", 200, "no port", 0},
		{"https://inside.test/v1/report", 200, "no connections are made", 0},
		{"https://127.0.0.1/v1/report", 200, "no connections are made", 0},
		{"https://[::1]/v1/report", 200, "no connections are made", 0},
		{"https://unknown.test/v1/report", 200, "no address", 0},
	} {
		got, status = nil, one.status
		u, err := url.Parse(one.uri)
		if err != nil {
			t.Fatal(err)
		}
		err = c.post(context.Background(), u, text)
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) || len(got) != one.got {
			t.Errorf("%s: %v, %d requests; want %q", one.uri, err, len(got), one.want)
		}
		if len(got) == 1 && fmt.Sprint(got[0].Sections) != fmt.Sprint(r.Sections) {
			t.Errorf("%+v", got[0])
		}
	}
	for _, a := range w.dialed {
		if !strings.HasPrefix(a, "192.0.32.7:") {
			t.Errorf("a connection to %s", a)
		}
	}
	c.cfg.Roots = nil
	u, _ := url.Parse("https://example.com/v1/report")
	var invalid *tls.CertificateVerificationError
	if err := c.post(context.Background(), u, text); !errors.As(err, &invalid) {
		t.Errorf("a server with any certificate gets reports: %v", err)
	}
}

// Addresses come from the DNS of others, and must not add fields or recipients.
func TestRecipients(t *testing.T) {
	for uri, want := range map[string]string{
		"mailto:a@d.test": "a@d.test", "mailto:a+b%2Dc@d.test?subject=x": "a+b-c@d.test", "mailto:a%0d%0aBcc:x@d.test": "", "mailto:a,b@d.test": "", "mailto:a%20b@d.test": "",
		"mailto:a@b@d.test": "", "mailto:@d.test": "", "mailto:a@": "", "mailto:.a@d.test": "", "mailto:a..b@d.test": "", "mailto:%3Ca@d.test": "", "mailto:a@d%0atest": "",
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		to, err := recipient(u)
		if string(to) != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, errNever) {
			t.Errorf("%s: %q, %v", uri, to, err)
		}
	}
}

// Damage to the file costs the damaged lines, and is reported.
func TestDamage(t *testing.T) {
	w := &world{}
	file := filepath.Join(t.TempDir(), "tls-reports")
	c, err := New(w.config(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, domain := range []string{"a.test", "b.test", "c.test"} {
		c.Success(domain, policy)
	}
	c.Close()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"b.test"`), []byte(`"x.test"`), 1)
	text = append(text, "torn"...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = New(w.config(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Domains(tlsrpt.DayOf(time.Now()))); got != "[a.test c.test]" || w.said("lines=2") != 1 {
		t.Errorf("%s; %s", got, w.log.String())
	}
	if err := (Config{}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("an empty configuration: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	l := line{Day: 20000, Domain: "d.test", Done: []string{"mailto:a@d.test"}}
	data, _ := json.Marshal(l)
	f.Add(data)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, _, err := decode(data)
		if err != nil {
			return
		}
		if data, err = json.Marshal(l); err != nil {
			t.Fatal(err)
		}
		again, _, err := decode(data)
		if err != nil || again.Domain != l.Domain || again.Day != l.Day || len(again.Done) != len(l.Done) {
			t.Errorf("%+v, %+v, %v", l, again, err)
		}
	})
}
