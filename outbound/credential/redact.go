package credential

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Redactor replaces the secrets of one credential in what servers say: some repeat what they were
// sent, and not only in their reply to it. It is safe for concurrent use. A nil Redactor replaces nothing.
type Redactor struct {
	replace func(text string) string // a function, because package fmt prints what pointers point to for some verbs
	forms   []Secret                 // what is replaced, the longest first
}

const (
	// redactMin is the length from which on a secret is looked for in a text: to replace all letters
	// "a" would say that it is one.
	redactMin = 4
	// tokensRedacted is the number of tokens of a credential that are looked for: that of a connection, and those before
	// it, which a server may still repeat.
	tokensRedacted = 4
)

// newRedactor returns a Redactor of secrets with which a user has logged in. It looks for each as it is, and in base64: alone, as
// for LOGIN, and within the response of each mechanism that shows it.
func newRedactor(user string, secrets []Secret) *Redactor {
	var forms []string
	encoded := func(octets []byte) {
		text := base64.StdEncoding.EncodeToString(octets)
		forms = append(forms, text, strings.TrimRight(text, "=")) // some leave out the padding
	}
	for _, s := range secrets {
		if len(s.reveal()) < redactMin {
			continue
		}
		forms = append(forms, s.reveal())
		encoded([]byte(s.reveal()))
		encoded(plainResponse(user, s))
		encoded(bearerResponse(XOAuth2, user, s))
		encoded(bearerResponse(OAuthBearer, user, s))
	}
	if len(forms) == 0 {
		return nil
	}
	slices.SortStableFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	r := &Redactor{}
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, hidden)
		r.forms = append(r.forms, NewSecret(f))
	}
	r.replace = strings.NewReplacer(pairs...).Replace
	return r
}

// Redact returns a text with a placeholder for each secret in it, and for the part of one with which a line ends
// of which the rest was not kept (smtp.ReplyLineMax).
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return text
	}
	if len(text) < mail.ReplyTextMax {
		return r.replace(text)
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		whole, part := line, ""
		if len(line) >= mail.ReplyTextMax {
			whole, part = r.cut(line)
		}
		lines[i] = r.replace(whole) + part
	}
	return strings.Join(lines, "\n")
}

// cut takes the beginning of a secret off the end of a line.
func (r *Redactor) cut(line string) (whole, part string) {
	for _, f := range r.forms {
		form := f.reveal()
		for n := min(len(form)-1, len(line)); n >= redactMin; n-- {
			if strings.HasSuffix(line, form[:n]) {
				return line[:len(line)-n], hidden
			}
		}
	}
	return line, ""
}

// Redactor returns what replaces the credential's password, or a token of its and those that were used before it.
func (h *Held) Redactor(token Secret) *Redactor {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && (token.IsZero() || slices.ContainsFunc(h.seen, token.Equal)) {
		return h.redactor
	}
	if !token.IsZero() {
		h.seen = append(h.seen[max(len(h.seen)-tokensRedacted+1, 0):len(h.seen):len(h.seen)], token)
	}
	h.known = true
	h.redactor = newRedactor(h.User, append([]Secret{h.Password}, h.seen...))
	return h.redactor
}
