package outbound

import (
	"context"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/smtp/client"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A login describes how one connection is authenticated. It has been chosen by the demand of the mail,
// so that what is remembered of its failure concerns this demand only: a server that refuses a
// password is not tried for each message, and other mail may be sent to it.
type login struct {
	held         *credential.Held
	token        credential.Secret
	kept         bool // the token has been used before
	conversation *credential.Conversation
	redactor     *credential.Redactor // of what the server says on the connection
	refused      bool                 // by the server, for good
}

// loginOf returns how a connection is authenticated by the credential of a label, nil for none, and raises
// what its protection must be. A reply that is not zero says why the host cannot be used.
func (c *Client) loginOf(ctx context.Context, label string, p *protection, h mail.Host) (*login, mail.Reply) {
	if label == "" {
		return nil, mail.Reply{}
	}
	held, err := c.cfg.Credentials.Labeled(label)
	if err != nil {
		return nil, unusableLogin(h, err.Error())
	}
	name := held.Name
	if why := raise(p, held.Protection); why != "" {
		return nil, unusableLogin(h, "credential "+name+": "+why)
	}
	token, kept, err := held.Token(ctx)
	if err != nil {
		c.cfg.Log.Warn("no access token", "credential", name, "error", err)
		return nil, unusableLogin(h, "no access token is available for credential "+name)
	}
	return &login{held: held, token: token, kept: kept}, mail.Reply{}
}

// raise raises a requirement to what a credential demands. A stronger one stays, and so does a
// certificate that the policy names otherwise.
func raise(p *protection, demanded credential.Protection) (why string) {
	if demanded == credential.Optional {
		return ""
	}
	p.Use = tlspolicy.UseAlways
	if demanded == credential.Encrypted || p.Check != tlspolicy.CheckNothing {
		return ""
	}
	n, err := route.ParseNexthop(p.nexthop)
	switch {
	case err == nil && n.Form == route.FormHost:
		p.Names = []string{n.Name}
	case err == nil && n.Form == route.FormDomain: // the hosts are what the DNS says
		p.Names = []string{n.Name, "." + n.Name}
	default:
		return "set tls = \"encrypted\" for it, or tls_security_level = \"fingerprint\": a server without a name has no certificate that can be verified"
	}
	p.Check = tlspolicy.CheckName
	return ""
}

// begin begins to authenticate on a new connection.
func (l *login) begin() client.Authenticator {
	l.conversation, l.redactor, l.refused = credential.NewConversation(l.held, l.token), l.held.Redactor(l.token), false
	return l.conversation
}

// renew reports whether another attempt is worthwhile, with a new token: one that has been used
// before may have been withdrawn since.
func (l *login) renew(ctx context.Context) bool {
	if l == nil || !l.refused {
		return false
	}
	l.held.Forget(l.token)
	if !l.kept || ctx.Err() != nil {
		return false
	}
	var err error
	l.token, l.kept, err = l.held.Token(ctx)
	return err == nil
}

// unauthenticated notes that a session has failed, if that was because of its authentication.
func (c *Client) unauthenticated(f *client.Failure, l *login, h mail.Host) {
	if l == nil {
		return
	}
	f.Reply.Text = l.redactor.Redact(f.Reply.Text) // our own words may quote what the server has said
	if f.Kind != client.FailAuth {
		return
	}
	l.refused = f.Reply.Permanent()
	c.count.authFailures.Add(1)
	c.cfg.Log.Warn("authentication failed", "host", hostLabel(h), "credential", l.held.Name,
		"mechanism", l.conversation.Mechanism(), "reply", f.Reply.String())
}

// unusableLogin is the reply for mail whose credential cannot be used now.
func unusableLogin(h mail.Host, text string) mail.Reply {
	return mail.Reply{Code: 454, Status: mail.Status{Class: 4, Subject: 7}, Text: mail.CleanText(hostLabel(h) + ": " + strings.TrimSpace(text))}
}
