package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/outbound/credential"
)

// credentials are the logins at other servers.
type credentials struct {
	list    []login
	options []string // lines that each of them has
}

// A login is an entry of smtp_sasl_password_maps.
type login struct {
	name           string // of its table
	nexthop        string // "*" for those of senders
	sender         string
	user, password string
}

// text returns the file of the credentials, or "" if there are none.
func (c *credentials) text() string {
	if len(c.list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Logins at other servers, from smtp_sasl_password_maps of Postfix (docs/authentication-sending.md).\n")
	for _, l := range c.list {
		fmt.Fprintf(&b, "\n[%s]\nfor = [%s]\n", tomlfile.QuoteKey(l.name), tomlfile.QuoteText(l.nexthop))
		if l.sender != "" {
			fmt.Fprintf(&b, "senders = [%s]\n", tomlfile.QuoteText(l.sender))
		}
		fmt.Fprintf(&b, "user = %s\npassword = %s\n", tomlfile.QuoteText(l.user), tomlfile.QuoteText(l.password))
		for _, line := range c.options {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// cutCredential separates "user:password"; without a colon the user is all of it.
func cutCredential(s string) (user, password string) {
	user, password, _ = strings.Cut(s, ":")
	return user, password
}

// passwords translates the logins at other servers.
func (t *translation) passwords() {
	enable, maps := t.get("smtp_sasl_auth_enable"), t.get("smtp_sasl_password_maps")
	if !enable.yes() {
		for _, s := range []setting{enable, maps} {
			if s.set {
				t.notNeeded("No server gets a password", s.line())
			}
		}
		return
	}
	bySender := t.get("smtp_sender_dependent_authentication")
	tables, err := maincf.ParseTables(maps.text)
	if err != nil {
		t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", maps.line())
	}
	for _, one := range tables {
		switch {
		case one.IsText() || one.Type == maincf.TypeInline:
			for _, p := range t.keys(maps, one) {
				t.addLogin(p, bySender.yes(), maps)
			}
		case one.Type == maincf.TypeStatic:
			t.addLogin(maincf.Pair{Key: "*", Value: one.Name}, false, maps)
		default:
			t.lost(maps, "%s: %s. The file of credentials takes the passwords (docs/authentication-sending.md).", one.String(), external(one))
		}
	}
	t.loginOptions()
	lines := nonEmpty(enable.line(), maps.line(), bySender.line())
	if len(t.creds.list) == 0 {
		t.remark(Todo, "No login could be read. Write the file of credentials (docs/authentication-sending.md), and its path into credentials.", lines...)
		return
	}
	users := make([]string, len(t.creds.list))
	for i, l := range t.creds.list {
		users[i] = fmt.Sprintf("%s for %s", l.user, l.nexthop)
		if l.sender != "" {
			users[i] = fmt.Sprintf("%s for mail from %s", l.user, l.sender)
		}
	}
	const most = 10
	if more := len(users) - most; more > 0 {
		users = append(users[:most], fmt.Sprintf("%d more", more))
	}
	if t.in.Credentials != "" {
		t.doc.top.set("credentials", t.in.Credentials, lines...)
		t.remark(Different, fmt.Sprintf("Logins (%s) are in %s, which only its owner may read: make the user of this program its owner, or a member of its group. They are used over TLS only, with a certificate for the server's name, unless tls in that file says otherwise.", strings.Join(users, ", "), t.in.Credentials), lines...)
		return
	}
	t.remark(Todo, fmt.Sprintf("Passwords are not written into the configuration. Run the command again with --credentials /etc/posthaste/credentials.toml, which writes a file of credentials with these logins: %s.", strings.Join(users, ", ")), lines...)
}

// unnamed matches what cannot be in the name of a login's table.
var unnamed = regexp.MustCompile(`[^A-Za-z0-9]+`)

// addLogin adds the login of an entry.
func (t *translation) addLogin(p maincf.Pair, bySender bool, s setting) {
	user, password := cutCredential(p.Value)
	t.keepSecret(password)
	l := login{nexthop: p.Key, user: user, password: password}
	if password == "" {
		t.lost(s, "The login of %q has no password.", p.Key)
		return
	}
	switch {
	case strings.Contains(p.Key, "@") && !bySender:
		t.lost(s, "The login of %q has no effect: smtp_sender_dependent_authentication is not set.", p.Key)
		return
	case strings.Contains(p.Key, "@"):
		l.nexthop, l.sender = "*", p.Key
	}
	base := strings.Trim(unnamed.ReplaceAllString(strings.ToLower(p.Key), "-"), "-")
	if base = base[:min(len(base), 50)]; base == "" {
		base = "all"
	}
	l.name = base
	for n := 2; slices.ContainsFunc(t.creds.list, func(other login) bool { return other.name == l.name }); n++ {
		l.name = fmt.Sprintf("%s-%d", base, n)
	}
	if _, err := credential.NewTable(append(t.creds.table(), l.credential()), ""); err != nil {
		t.lost(s, "The login of %q: %s.", p.Key, strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	t.creds.list = append(t.creds.list, l)
}

// credential returns the login as package credential has it.
func (l *login) credential() credential.Credential {
	c := credential.Credential{Name: l.name, For: []string{l.nexthop}, User: l.user, Password: credential.NewSecret(l.password)}
	if l.sender != "" {
		c.Senders = []string{l.sender}
	}
	return c
}

func (c *credentials) table() (all []credential.Credential) {
	for i := range c.list {
		all = append(all, c.list[i].credential())
	}
	return all
}

// loginOptions translates what all logins have in common.
func (t *translation) loginOptions() {
	if filter := t.get("smtp_sasl_mechanism_filter"); filter.set && filter.text != "" {
		defer t.otherwise("It is in the file of credentials", filter.line())
		var names []string
		for _, word := range filter.words() {
			name := strings.ToUpper(word)
			switch {
			case slices.Contains(credential.Mechanisms(), name) && name != "XOAUTH2" && name != "OAUTHBEARER":
				names = append(names, tomlfile.QuoteText(name))
			case name == "XOAUTH2" || name == "OAUTHBEARER":
				t.todo(filter, "An access token is no password: replace password by token_command or token_file in the file of credentials (docs/authentication-sending.md).")
			case strings.HasPrefix(name, "!") || strings.Contains(name, ":"):
				t.lost(filter, "%s: mechanisms are listed by their names here; write mechanisms in the file of credentials.", word)
			default:
				t.lost(filter, "%s is not a mechanism that exists here; there are %s.", word, strings.Join(credential.Mechanisms(), ", "))
			}
		}
		if len(names) > 0 {
			t.creds.options = append(t.creds.options, "mechanisms = ["+strings.Join(names, ", ")+"]")
		}
	}
	level := t.get("smtp_tls_security_level")
	secure := t.get("smtp_sasl_security_options")
	if level.set && level.text == "none" {
		t.creds.options = append(t.creds.options, `tls = "optional"`)
		if !slices.Contains(secure.words(), "noplaintext") {
			t.creds.options = append(t.creds.options, "secret_in_clear = true")
		}
		t.remark(Todo, "Passwords are used without TLS, as smtp_tls_security_level is none. Set it to \"secure\" or \"encrypt\", and remove tls and secret_in_clear from the file of credentials.", nonEmpty(level.line(), secure.line())...)
		return
	}
	for _, s := range []setting{secure, t.get("smtp_sasl_tls_security_options")} {
		if s.set {
			t.notNeeded("Passwords go to servers over TLS with a certificate only, unless the file of credentials says otherwise", s.line())
		}
	}
}
