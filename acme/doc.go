// Package acme obtains the certificate of this server from an authority by the ACME protocol
// (RFC 8555), proves that the names are ours by HTTP-01 (RFC 8555 8.3) or TLS-ALPN-01
// (RFC 8737), and renews it in time.
//
// The protocol is that of golang.org/x/crypto/acme. What is here decides when: a certificate
// is wanted when there is none, when it is for other names than those configured, of another
// authority or with a key of another type, or when less than a third of its life is left. An attempt that fails is logged with what the authority
// said, and repeated after five minutes, then after twice as long each time, up to six hours:
// authorities count failures and refuse those who hurry.
//
// The account's key and the certificate are files in one directory. The certificate's file has
// its chain and its key and is replaced as a whole, so that who reads it finds a pair that fits.
package acme
