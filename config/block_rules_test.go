package config

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/replies"
)

// What receivers say about our address, about a sender and about a recipient, in their words, and the rule
// that comes with the program for each. The words of receivers are from the sources that the rules and patterns name.
func TestBlockRules(t *testing.T) {
	c, err := Parse("posthaste.toml", nil, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.EveryReplyRule()); n != 5 {
		t.Errorf("%d rules apply by default, want those for blocks", n)
	}
	for n, want := range []int{1, 1, 2} {
		c.Tenants = make([]Tenant, n)
		if got := c.EveryReplyRule()[3].Tenants; got != want {
			t.Errorf("with %d tenants, mail of %d has to be refused, want %d", n, got, want)
		}
	}
	c.BlockReplyRules = false
	if n := len(c.EveryReplyRule()); n != 0 {
		t.Errorf("%d rules without those for blocks", n)
	}
	c.BlockReplyRules, c.ShippedReplyRules = true, true
	if all := c.EveryReplyRule(); len(all) <= 5 || all[len(all)-5].Name != "blocked-sender" {
		t.Errorf("those for blocks are not the last of %d rules", len(all))
	}
	book, err := c.Replies()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		stage    mail.Stage
		says, mx string
		rule     string
	}{
		// Our address.
		{mail.StageMail, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/192.0.2.1", "mx.a.example", "blocked-address"},
		{mail.StageRcpt, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org", "mx.a.example", "blocked-address"},
		{mail.StageRcpt, "550 5.7.25 Client host rejected: cannot find your hostname, [192.0.2.1]", "mx.a.example", "blocked-address"},
		{mail.StageMail, "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3140).", "a.mail.protection.outlook.com", "blocked-address"},
		{mail.StageRcpt, "550 5.7.1 <ph.test>: Helo command rejected: Host not found", "mx.a.example", "blocked-address"},
		{mail.StageMail, "550 5.7.606 Access denied, banned sending IP [192.0.2.1]", "a.mail.protection.outlook.com", "blocked-address"},
		{mail.StageMail, "550 5.7.1 Your IP address is on our blacklist", "mx.a.example", "blocked-address"},
		{mail.StageMail, "550 5.7.1 [192.0.2.1] The IP you're using to send mail is not authorized to send email directly to our servers, sending IP blocked", "mx.a.example", "blocked-address"},
		{mail.StageMail, "550 5.7.25 192.0.2.1 does not have a PTR record", "mx.a.example", "blocked-address"},
		{mail.StageData, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org", "mx.a.example", "blocked-address"},
		// Not clear which of the two.
		{mail.StageMail, "550 5.7.1 rejected by policy", "mx.a.example", "blocked-everything"},
		{mail.StageMail, "554 5.7.1 The domain evil.test resolves to a listed IP address", "mx.a.example", "blocked-everything"},
		{mail.StageMail, "550 5.7.1 Service unavailable", "mx.a.example", "blocked-everything"},
		// A sender.
		{mail.StageMail, "554 5.7.1 Service unavailable; Sender address [a@bad.test] blocked using dbl.spamhaus.org", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 5.7.1 IP address 192.0.2.1 may not send for your domain by policy", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 SPF: ip address not permitted by policy", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 5.7.1 Your IP address is not authorized to send mail on behalf of evil.test", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 5.7.23 SPF check failed for IP address 192.0.2.1", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 5.7.1 bad.example does not designate sending IP 192.0.2.1", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 5.7.1 Mail from bad.example is not allowed from your server (SPF policy)", "mx.a.example", "blocked-sender-spf"},
		{mail.StageRcpt, "550 5.7.1 rejected per SPF: your server", "mx.a.example", "blocked-sender"},
		{mail.StageMail, "550 5.7.1 not permitted from client IP (SPF -all)", "mx.a.example", "blocked-sender-spf"},
		{mail.StageMail, "550 5.7.23 your IP 192.0.2.1 is not allowed to use domain x.test", "mx.a.example", "blocked-sender-code"},
		// What a sender chooses.
		{mail.StageRcpt, "554 5.7.1 <client host@p.test>: Recipient address rejected: Access denied", "mx.a.example", ""},
		// Something else, or in time.
		{mail.StageRcpt, "550 5.7.1 rejected by policy", "mx.a.example", ""},
		{mail.StageRcpt, "550 5.1.1 no such user at this IP address", "mx.a.example", ""},
		{mail.StageRcpt, "550 5.2.2 mailbox full", "mx.a.example", ""},
		{mail.StageContent, "550 5.7.1 Our system has detected that this message is likely suspicious due to the very low reputation of the sending IP address", "gmail-smtp-in.l.google.com", ""},
		{mail.StageMail, "451 4.7.1 Client host [192.0.2.1] blocked for now by policy", "mx.a.example", ""},
		{mail.StageMail, "550 5.1.8 sender address rejected: domain not found", "mx.a.example", ""},
		{mail.StageGreeting, "554 no SMTP service here", "mx.a.example", ""},
		// One host.
		{mail.StageGreeting, "553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in Spamhaus's list", "mta5.am0.yahoodns.net", ""},
		{mail.StageGreeting, "554 5.7.1 You are not allowed to connect", "mx.a.example", ""},
		{mail.StageEhlo, "550 5.7.1 rejected by policy", "mx.a.example", ""},
	} {
		r, err := replies.ParseReply(one.says)
		if err != nil {
			t.Fatal(err)
		}
		r.By = one.mx + "[192.0.2.9]"
		got := ""
		e := book.Explain(&r, replies.Occasion{Transport: "smtp", Stage: one.stage})
		if e.Rule != nil {
			got = e.Rule.Name
		}
		if got != one.rule {
			t.Errorf("at %v, %q: rule %q of class %v, want %q", one.stage, one.says, got, e.Class, one.rule)
		}
	}
}

// A rule must say something, and nothing twice.
func TestReplyRulesThatMakeNoSense(t *testing.T) {
	for rule, want := range map[string]string{
		"backoff = \"1h\"": "no condition",
		"class = \"spam\"": "nothing follows",
		"class = \"spam\"\nbackoff = \"1h\"\nsuspend = \"1h\"":                  "a destination that is suspended needs no backoff",
		"class = \"spam\"\nconcurrency = 1":                                     "how long the limits apply",
		"class = \"spam\"\nfor = \"1h\"\nsuspend = \"1h\"":                      "none is set",
		"class = \"spam\"\nresult = \"permanent\"\nin_a_row = true":             "counted only for",
		"class = \"spam\"\nresult = \"permanent\"\nsender_domains = 2":          "counted only for",
		"class = \"spam\"\nsuspend = \"1h\"\nin_a_row = true":                   "one reply is no row",
		"class = \"spam\"\nbackoff = \"1h\"\nrecipient_domains = 2":             "only for a suspension",
		"class = \"spam\"\nsuspend = \"1h\"\nsuspend_first = \"1h\"":            "no first step",
		"class = \"spam\"\nsuspend = \"until-resumed\"\nsuspend_first = \"1h\"": "no first step",
		"class = \"spam\"\nbackoff = \"1h\"\nsuspend_first = \"1m\"":            "no first step",
		"stage = \"helo\"\nsuspend = \"1h\"":                                    "not a stage of a conversation",
		"class = \"spam\"\nrate = \"1/s, 5/h\"\nfor = \"1h\"":                   "one limit",
	} {
		_, err := Parse("posthaste.toml", []byte("[reply_rule.x]\n"+rule+"\n"), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rule, err, want)
		}
	}
	for _, rule := range []string{
		"stage = \"mail\"\nsuspend = \"1h\"", "class = \"spam\"\nsuspend = \"1h\"\ntimes = 2\nin_a_row = true",
		"class = \"spam\"\nsuspend = \"1h\"\nsender_domains = 2\nin_a_row = true", "class = \"spam\"\nsuspend = \"1h\"\nsuspend_first = \"1m\"\nrecipient_domains = 2", "class = \"spam\"\nsuspend = \"1h\"\nconcurrency = 1\nfor = \"2h\"",
	} {
		if _, err := Parse("posthaste.toml", []byte("[reply_rule.x]\n"+rule+"\n"), testEnvironment); err != nil {
			t.Errorf("%q: %v", rule, err)
		}
	}
}
