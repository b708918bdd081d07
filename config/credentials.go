package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/secretfile"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/outbound/credential"
)

// credentialsMax is the size of the largest file of credentials: thousands fit.
const credentialsMax = 1 << 20

// A writtenCredential is a table of the file of credentials.
type writtenCredential struct {
	credential.Credential
	passwordFile string
}

// credentialParameters is the table of the parameters in the file of credentials. They are not
// in the reference of the configuration file, but in docs/authentication-sending.md.
var credentialParameters = []parameter[writtenCredential]{
	define("for", list(anyText("nexthop", `such as ["[smtp.example.net]:587"]`), "nexthops"), func(c *writtenCredential) *[]string { return &c.For }, nil,
		"The nexthops whose servers get the credential.", "Set it for every credential."),
	define("senders", list(anyText("sender", `such as ["mia@example.com", "@example.org"]`), "senders"), func(c *writtenCredential) *[]string { return &c.Senders }, nil,
		"The senders for whose mail the credential is used.", "Set it if each sender has a login of its own."),
	define("user", anyText("user", ""), func(c *writtenCredential) *string { return &c.User }, "",
		"The user.", "Set it for every credential."),
	define("password", secret(), func(c *writtenCredential) *credential.Secret { return &c.Password }, credential.Secret{},
		"The password.", "Set it unless it is in a file of its own, or there are tokens."),
	define("password_file", secretPath("/etc/posthaste/relay.password"), func(c *writtenCredential) *string { return &c.passwordFile }, "",
		"The file that has the password in its first line.", "Set it to keep the password apart."),
	define("token_file", secretPath("/run/posthaste/relay.token"), func(c *writtenCredential) *string { return &c.Token.File }, "",
		"The file that has an OAuth 2.0 access token in its first line.", "Set it if another program renews the token."),
	define("token_command", list(anyText("argument", ""), "arguments"), func(c *writtenCredential) *[]string { return &c.Token.Command }, nil,
		"The program that prints an access token, and its arguments.", "Set it if a program makes tokens on request."),
	define("token_lifetime", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour}), func(c *writtenCredential) *time.Duration { return &c.Token.Lifetime }, credential.LifetimeDefault,
		"The time that a token of the command is used if the command does not print its lifetime.", "Set it to the lifetime of the tokens."),
	define("token_timeout", period(time.Second, limit[time.Duration]{min: time.Second, max: 10 * time.Minute}), func(c *writtenCredential) *time.Duration { return &c.Token.Timeout }, credential.TimeoutDefault,
		"The time limit for the command.", "Raise it for slow providers."),
	define("mechanisms", list(mechanism(), "mechanisms"), func(c *writtenCredential) *[]string { return &c.Mechanisms }, nil,
		"The mechanisms that may be used, in the order of preference.", "Set it if the server's best one does not work."),
	define("tls", words(word[credential.Protection]{"verified", credential.Verified}, word[credential.Protection]{"encrypted", credential.Encrypted}, word[credential.Protection]{"optional", credential.Optional}),
		func(c *writtenCredential) *credential.Protection { return &c.Protection }, credential.Verified,
		"The security of a connection that the credential requires.", "Lower it for servers without a valid certificate."),
	define("secret_in_clear", flag(), func(c *writtenCredential) *bool { return &c.InClear }, false,
		"Whether the password or token may be sent without TLS.", "Set it to true only on a network where nothing can be intercepted."),
}

// anyText is a text that only its user judges.
func anyText(name, form string) kind[string] {
	return kind[string]{name: name, form: form, plain: func(s string) any { return s }, read: func(n *tomlfile.Node) (string, *flaw) {
		if n.Kind != tomlfile.KindText {
			return "", &flaw{}
		}
		return n.Text, nil
	}}
}

// secret is a text that no message shows.
func secret() kind[credential.Secret] {
	return kind[credential.Secret]{name: "text", form: "in quotes", plain: func(s credential.Secret) any { return s.String() }, read: func(n *tomlfile.Node) (credential.Secret, *flaw) {
		if n.Kind != tomlfile.KindText || n.Text == "" {
			return credential.Secret{}, &flaw{}
		}
		return credential.NewSecret(n.Text), nil
	}}
}

// secretPath is the path of a file with secrets. A message quotes such as an example of one.
func secretPath(such string) kind[string] {
	return text("path", "such as "+tomlfile.QuoteText(such)+`, or "systemd:NAME" for a credential of the service`, func(s string) (message, hint string) {
		if !secretfile.ValidPath(s) {
			return "this is neither an absolute path nor the name of a credential of the service", "the program may be started in any directory"
		}
		return "", ""
	})
}

func mechanism() kind[string] {
	var all []word[string]
	for _, m := range credential.Mechanisms() {
		all = append(all, word[string]{m, m})
	}
	return words(all...)
}

// LoadCredentials reads the credentials, and the files that they name. The error has all
// that is wrong, with file and line, and nothing of any value. Without a file it returns nil.
func (c *Config) LoadCredentials() (*credential.Table, error) {
	table, _, err := c.readCredentials()
	return table, err
}

// readCredentials is LoadCredentials, and returns the lines at which the credentials begin, by their names.
func (c *Config) readCredentials() (*credential.Table, map[string]int, error) {
	if c.Credentials == "" {
		return nil, nil, nil
	}
	text, err := secretfile.Read(c.Credentials, credentialsMax)
	if err != nil {
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	all, lines, errs := parseCredentials(c.Credentials, text)
	if len(errs) == 0 {
		table, err := credential.NewTable(all, c.Rewriting.Delimiter)
		if err == nil {
			return table, lines, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, fmt.Errorf("credentials: %w", errors.Join(errs...))
}

// parseCredentials reads a file of credentials, and returns their lines by their names.
func parseCredentials(name string, text []byte) (all []credential.Credential, lines map[string]int, errs []error) {
	lines = make(map[string]int)
	src := tomlfile.New(name, text)
	complain := func(at tomlfile.Span, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %s", name, src.Line(at), fmt.Sprintf(format, args...)))
	}
	root := src.Parse()
	src.CheckWhole()
	if err := src.Problems(); err != nil {
		var problems *tomlfile.Problems
		errors.As(err, &problems)
		for _, p := range problems.List { // their texts may have a piece of the line, which may be a password
			errs = append(errs, fmt.Errorf("%s:%d:%d: this is not TOML, or a key is in it twice", name, p.Line, p.Column))
		}
		return nil, nil, errs
	}
	for _, e := range root.Entries {
		if e.Value.Kind != tomlfile.KindTable {
			complain(e.At, "%s stands outside of all tables: begin each credential with a name in brackets, such as [relay]", tomlfile.QuoteKey(e.Name))
			continue
		}
		one, wrong := readCredential(e, complain)
		if wrong {
			continue
		}
		if err := one.complete(); err != nil {
			complain(e.Value.Table.At, "[%s]: %s", e.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		all = append(all, one.Credential)
		lines[one.Name] = src.Line(e.Value.Table.At)
	}
	return all, lines, errs
}

// readCredential reads one table. What is wrong with a value is said without the value: it may
// be a password in the wrong place.
func readCredential(e *tomlfile.Entry, complain func(tomlfile.Span, string, ...any)) (one writtenCredential, wrong bool) {
	for _, p := range credentialParameters {
		p.reset(&one)
	}
	one.Name = e.Name
	for _, v := range e.Value.Table.Entries {
		i := slices.IndexFunc(credentialParameters, func(p parameter[writtenCredential]) bool { return p.name == v.Name })
		if i < 0 {
			names := make([]string, len(credentialParameters))
			for i, p := range credentialParameters {
				names[i] = p.name
			}
			complain(v.At, "[%s]: there is no key of this name; there are %s", e.Name, strings.Join(names, ", "))
			wrong = true
			continue
		}
		if p := credentialParameters[i]; p.set(&one, v.Value) != nil {
			complain(v.At, "[%s] %s: this value cannot be used; allowed: %s", e.Name, v.Name, p.allowed)
			wrong = true
		}
	}
	return one, wrong
}

// complete reads the password if it is in a file of its own, and checks the credential.
func (w *writtenCredential) complete() error {
	if w.passwordFile != "" {
		if !w.Password.IsZero() {
			return errors.New("it has both password and password_file")
		}
		text, err := secretfile.Read(w.passwordFile, credentialsMax)
		if err != nil {
			return fmt.Errorf("password_file: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		w.Password = credential.NewSecret(strings.TrimSuffix(line, "\r"))
		if w.Password.IsZero() {
			return fmt.Errorf("password_file: the first line of %s is empty", w.passwordFile)
		}
	}
	return w.Validate()
}
