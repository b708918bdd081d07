package config

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/tokens"
)

// A Remote is how the administration API is served over the network.
type Remote struct {
	Listen []netip.AddrPort // admin_listen
	Tokens string           // admin_tokens; "" is none
	TLS    RemoteTLS        // admin_tls
}

// A RemoteTLS says on which addresses of admin_listen TLS is spoken.
type RemoteTLS uint8

const (
	RemoteTLSAuto  RemoteTLS = iota // on all but loopback addresses
	RemoteTLSNever                  // on none
)

// Secure reports whether TLS is spoken on an address.
func (r *Remote) Secure(a netip.AddrPort) bool {
	return r.TLS == RemoteTLSAuto && !a.Addr().IsLoopback()
}

func remoteParameters() []parameter[Config] {
	return []parameter[Config]{
		define("admin_listen", list(listener(), "addresses"), func(c *Config) *[]netip.AddrPort { return &c.Remote.Listen }, []netip.AddrPort{},
			"The addresses and ports on which the administration API is served by HTTP to programs that have a token. The API is also on admin_socket, whether or not this is set; there, no token is needed.",
			"Set it to an address such as \"127.0.0.1:8025\" if programs on this machine must see or change the queue, or to another address, with TLS, for programs on other machines.").onRestart(),
		define("admin_tokens", optional(filePath("/etc/posthaste/tokens"), "for none"), func(c *Config) *string { return &c.Remote.Tokens }, "",
			"The file with the hashes of the tokens for admin_listen, which \"posthaste token\" makes and changes; only its owner or the service's group may be able to read it, and a reload reads it again.",
			"Set it with admin_listen."),
		define("admin_tls", words(word[RemoteTLS]{"auto", RemoteTLSAuto}, word[RemoteTLS]{"never", RemoteTLSNever}), func(c *Config) *RemoteTLS { return &c.Remote.TLS }, RemoteTLSAuto,
			"The use of TLS on the addresses of admin_listen. With auto, all but loopback addresses use it, with the certificates of [[certificate]] or acme_names; with never, no address uses it.",
			"Set it to never only if a proxy in front of this host speaks TLS, or if the network is private, since otherwise tokens could be read on the way.").onRestart(),
	}
}

// remote warns of an API on the network that no program can use, or whose tokens can be read on the way.
func (w *warner) remote() {
	r := &w.c.Remote
	if len(r.Listen) > 0 && r.Tokens == "" {
		w.about("admin_listen", "no program can use these addresses: there is no file of tokens; set admin_tokens, and make a token with \"posthaste token add\"")
	}
	for _, a := range r.Listen {
		switch {
		case a.Addr().IsLoopback():
		case r.TLS == RemoteTLSNever:
			w.about("admin_listen", "%s can be reached by other machines without TLS, so that tokens can be read on the way unless a proxy in front speaks TLS", a)
		case !w.c.Certifies():
			w.about("admin_listen", "no program can use %s: it is no loopback address, so TLS is spoken there, and there is no certificate; add a [[certificate]] or set acme_names", a)
		}
	}
}

// OpenTokens reads the file of tokens; the set is empty if there is none.
func (c *Config) OpenTokens() (*tokens.Set, error) {
	if c.Remote.Tokens == "" {
		return &tokens.Set{}, nil
	}
	return tokens.Open(c.Remote.Tokens)
}
