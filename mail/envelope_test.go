package mail

import "testing"

// The last "@" divides an address: a quoted local part may hold others
// (RFC 5321 4.1.2).
func TestAddress(t *testing.T) {
	for a, want := range map[Address][2]string{
		"":                    {"", ""},
		"postmaster":          {"postmaster", ""},
		"user@example.com":    {"user", "example.com"},
		"User@Example.COM":    {"User", "Example.COM"},
		`"a@b"@example.com`:   {`"a@b"`, "example.com"},
		"a@[IPv6:2001:db8::]": {"a", "[IPv6:2001:db8::]"},
		"a@":                  {"a", ""},
		"@example.com":        {"", "example.com"},
	} {
		if a.Local() != want[0] || a.Domain() != want[1] {
			t.Errorf("%q is %q at %q", a, a.Local(), a.Domain())
		}
	}
}

// RFC 3461 4.1: without NOTIFY failures are reported and delays may be; with it
// only what it names; with NEVER nothing.
func TestNotify(t *testing.T) {
	for _, c := range []struct {
		n                       Notify
		failure, delay, success bool
		text                    string
	}{
		{0, true, true, false, ""},
		{NotifyNever, false, false, false, "NEVER"},
		{NotifyFailure, true, false, false, "FAILURE"},
		{NotifyDelay, false, true, false, "DELAY"},
		{NotifySuccess, false, false, true, "SUCCESS"},
		{NotifySuccess | NotifyFailure, true, false, true, "SUCCESS,FAILURE"},
		{NotifyFailure | NotifyDelay, true, true, false, "FAILURE,DELAY"},
		{NotifySuccess | NotifyFailure | NotifyDelay, true, true, true, "SUCCESS,FAILURE,DELAY"},
	} {
		if c.n.Failure() != c.failure || c.n.Delay() != c.delay || c.n.Success() != c.success || c.n.String() != c.text {
			t.Errorf("%d: failure %v, delay %v, success %v, %q", c.n, c.n.Failure(), c.n.Delay(), c.n.Success(), c.n)
		}
	}
}

// These words are sent to other servers, so they are spelt as the RFCs spell
// them.
func TestParameterWords(t *testing.T) {
	for want, got := range map[string]string{
		"": RetUnset.String(), "FULL": RetFull.String(), "HDRS": RetHeaders.String(),
		"7BIT": Body7Bit.String(), "8BITMIME": Body8BitMIME.String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
