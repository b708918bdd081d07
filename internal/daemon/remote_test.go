package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tokens"
)

// The administration API is on the network with TLS, for programs with a token of the file; a
// reload knows new tokens and forgets removed ones, and one that cannot read the file leaves
// the old ones in force.
func TestAdministrationOverTheNetwork(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), t.TempDir()
	path := filepath.Join(files, "tokens")
	first, err := tokens.Add(path, tokens.Token{Name: "first", Scope: tokens.ScopeRead}, -1)
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, files, "a", 90*24*time.Hour, "mta.test")
	roots := x509.NewCertPool()
	known, err := x509.ParseCertificate(leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(known)
	text := func(path string) string {
		return fmt.Sprintf("admin_listen = [\":0\", \"127.0.0.1:0\"]\nadmin_tokens = %q\n", path) + pairs(files, "a")
	}
	r := start(t, dir, text(path))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "mta.test"}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	ask := func(scheme string, ln net.Listener, token string) int {
		t.Helper()
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		request, err := http.NewRequest("GET", scheme+"://127.0.0.1:"+port+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.ProtoMajor != 1 {
			t.Errorf("HTTP/%d", answer.ProtoMajor)
		}
		return answer.StatusCode
	}
	all, loopback := r.d.remote[0], r.d.remote[1]
	if a, b, c := ask("https", all, first), ask("http", loopback, first), ask("https", all, first+"x"); a != 200 || b != 200 || c != 401 {
		t.Errorf("with TLS %d, on loopback %d, another token %d", a, b, c)
	}
	second, err := tokens.Add(path, tokens.Token{Name: "second", Scope: tokens.ScopeOperate}, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tokens.Remove(path, "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.d.reload(configure(t, dir, text(filepath.Join(files, "none")))); err == nil || ask("https", all, first) != 200 {
		t.Errorf("a reload without the file: %v", err)
	}
	if _, err := r.d.reload(configure(t, dir, text(path))); err != nil {
		t.Fatal(err)
	}
	if a, b := ask("https", all, first), ask("https", all, second); a != 401 || b != 200 {
		t.Errorf("after a reload: the removed one %d, the new one %d", a, b)
	}
}
