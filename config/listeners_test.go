package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
)

// What the file says reaches the server, in the order of the file, after the short form.
func TestListeners(t *testing.T) {
	c := mustParse(t, `
listen = [":25"]
relay_clientcerts = []
smtpd_forbid_unauth_pipelining = true
[[listener]]
address = "192.0.2.1:587"
name = "submission"
purpose = "submission"
connection_limit = 7
client_connection_count_limit = 0
recipient_limit = 100
message_size_limit = 0
timeout = "1m"
greet_pause = 0
[[listener]]
address = ":2525"
forbid_unauth_pipelining = false
proxy_networks = "10.0.0.1"
xclient_networks = ["10.0.0.2"]
xforward_networks = ["10.0.0.0/8"]
[[listener]]
address = "unix:/run/x.sock"
group = "mail"
[class.x]
listener = ["submission", "[::]:2525", "unix:/run/x.sock"]
[[listener]]
address = ":465"
purpose = "submissions"
name = "smtps"
tls_min = "1.3"
[[listener]]
address = ":588"
name = "closed"
purpose = "submission"
tls = "none"
[[certificate]]
cert = "/c"
key = "/k"
`)
	want := []inbound.Listener{
		{Name: "[::]:25", EarlyTalkers: inbound.EarlyReject, Use: inbound.TLSMay},
		{Name: "submission", Purpose: inbound.PurposeSubmission, FutureRelease: 30 * 24 * time.Hour, DeliverBy: true, Use: inbound.TLSRequire, Limits: inbound.Limits{Connections: 7, ClientConnections: inbound.Unlimited,
			Recipients: 100, Size: inbound.Unlimited, CommandTimeout: time.Minute, GreetPause: -1}},
		{Name: "[::]:2525", Use: inbound.TLSMay, Forwarders: inbound.Forwarders{Proxy: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")},
			XClient: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}, XForward: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		{Name: "unix:/run/x.sock", VERP: inbound.VERP{Unix: true}},
		{Name: "smtps", Purpose: inbound.PurposeSubmissions, FutureRelease: 30 * 24 * time.Hour, DeliverBy: true, Use: inbound.TLSImplicit},
		{Name: "closed", Purpose: inbound.PurposeSubmission, FutureRelease: 30 * 24 * time.Hour, DeliverBy: true},
	}
	for i := range want {
		want[i].RequireTLS, want[i].TLSOptional = true, true
	}
	if got := terms(c); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	c.env.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.9")}
	own := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:25"), netip.MustParseAddrPort("192.0.2.1:587"), netip.MustParseAddrPort("192.0.2.9:2525"),
		netip.MustParseAddrPort("192.0.2.9:465"), netip.MustParseAddrPort("192.0.2.9:588")}
	if got := c.Outbound().Own; !slices.Equal(got, own) {
		t.Errorf("mail loops are found at %v, want %v", got, own)
	}
	// Without the short form there is no listener that the file does not name.
	if got := terms(mustParse(t, "[[listener]]\naddress = \":25\"\n")); len(got) != 1 || got[0].Name != "[::]:25" {
		t.Errorf("%+v", got)
	}
	if got := terms(mustParse(t, "")); len(got) != 1 || got[0].Name != "127.0.0.1:2525" {
		t.Errorf("%+v", got)
	}
}

// Mistakes in listeners are found, with the reason and what to do.
func TestListenerMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[listener]\naddress = \":25\"":           `1:2: listener: this is a list of tables (write double brackets: [[listener]])`,
		"listener = \":25\"":                      `listener: this is a list of tables (write [[listener]] and its parameters below it)`,
		"[[listener]]":                            `listener.1.address: this listener has no address (add such as address = ":587"`,
		"[[listener]]\nname = \"a\"":              `1:3: listener.a.address: this listener has no address`,
		"[[listener]]\naddress = \"25\"":          `"25" has no port (write ":25" for all addresses)`,
		"[[listener]]\naddress = \"unix:x.sock\"": `"unix:x.sock" is not the absolute path of a socket (write such as`,
		"[[listener]]\naddress = \"unix:/" + strings.Repeat("x", 110) + "\"":                                                        "a unix socket's path cannot be longer than 103 bytes",
		"[[listener]]\naddress = \":25\"\npurpose = \"submit\"":                                                                     `listener."[::]:25".purpose: "submit" is not one of the allowed words`,
		"[[listener]]\naddress = \":25\"\ngroup = \"mail\"":                                                                         `3:9: listener."[::]:25".group: only a unix socket has a group (remove it)`,
		"[[listener]]\naddress = \":25\"\n[[listener]]\naddress = \"*:25\"":                                                         `3:3: listener."[::]:25": there is another listener of this name in line 1`,
		"listen = \":25\"\n[[listener]]\nname = \"a\"\naddress = \"[::]:25\"":                                                       `4:11: listener.a.address: [::]:25 is the address of another listener (remove one of them)`,
		"[[listener]]\naddress = \":25\"\nname = \"submission_socket\"":                                                             `"submission_socket" is the name of the socket for local programs`,
		"[[listener]]\naddress = \":25\"\nname = \"a b\"":                                                                           `"a b" is not a name of 1 to 64 letters`,
		"[[listener]]\naddress = \":25\"\nlimit = 1":                                                                                `listener."[::]:25".limit: unknown parameter`,
		"[[listener]]\naddress = \":25\"\nname = \"mx\"\n[class.a]\nlistener = \"mc\"":                                              `5:12: class.a.listener: there is no listener "mc" (did you mean mx?)`,
		"queue_directory = \"/q\"\n[[listener]]\naddress = \"unix:/q/submit.sock\"":                                                 `this is the path of submission_socket (choose another path)`,
		"[[listener]]\naddress = \":587\"\npurpose = \"submission\"":                                                                `3:11: listener."[::]:587".purpose: this listener needs a certificate, and there is none (add [[certificate]] with cert and key, or acme_names, or set tls = "none" on a network where nothing can be intercepted)`,
		"[[listener]]\naddress = \":465\"\npurpose = \"submissions\"":                                                               `3:11: listener."[::]:465".purpose: this listener needs a certificate, and there is none (add [[certificate]] with cert and key, or acme_names)`,
		"[[listener]]\naddress = \":25\"\ntls = \"may\"":                                                                            `3:7: listener."[::]:25".tls: this listener needs a certificate`,
		"[[certificate]]\ncert = \"/c\"\nkey = \"/k\"\n[[listener]]\naddress = \":465\"\npurpose = \"submissions\"\ntls = \"none\"": `listener."[::]:465".tls: it has no effect on submissions, where TLS comes first (remove it)`,
		"[[certificate]]\ncert = \"/c\"\nkey = \"/k\"\n[[listener]]\naddress = \"unix:/x\"\ntls = \"may\"":                          "nothing can listen in on a unix socket",
		"[[listener]]\naddress = \":25\"\nxclient_networks = [\"10.0.0.1\", \"::/0\"]":                                              `3:20: listener."[::]:25".xclient_networks: this is every client, who could then claim to be any other (name the addresses of the proxies)`,
		"[[listener]]\naddress = \"unix:/x\"\nproxy_networks = \"10.0.0.1\"":                                                        `listener."unix:/x".proxy_networks: clients of a unix socket have no address`,
		"[[certificate]]\ncert = \"/c\"":                                                                                            `1:3: certificate."/c".key: the file of the private key is missing (add such as key =`,
		"[[certificate]]\nkey = \"/c\"":                                                                                             `1:3: certificate.1.cert: the file of the certificate is missing`,
		"[[certificate]]\ncert = \"c.pem\"\nkey = \"/k\"":                                                                           `"c.pem" is not an absolute path (write it from the root: the program may be started in any directory)`,
		"acme_names = \"*.a.example\"":                                                                                              `stands for many names, which neither challenge proves (write each name`,
		"acme_names = \"mail\"":                                                                                                     `"mail" is not a full name (write it with its domain, as in "mail.example.com")`,
		"acme_names = \"a..b\"":                                                                                                     `"a..b" is not a domain name`,
		"acme_directory = \"http://a\"":                                                                                             `"http://a" is not the URL of a directory (write it with https://`,
		"relay_clientcerts = \"AB:CD\"":                                                                                             `"AB:CD" is neither a fingerprint nor an absolute path (openssl x509 -in FILE -noout -fingerprint -sha256 prints it)`,
		"relay_clientcerts = \"0123456789012345678901234567890123456789\"":                                                          `this has the length of SHA-1 or MD5`,
		"[[listeners]]\naddress = \":25\"":                                                                                          `did you mean [[listener]]?`,
	} {
		_, err := Parse("f", []byte(text+"\n"), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
