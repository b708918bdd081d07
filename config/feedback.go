package config

import (
	"strings"

	reports "github.com/posthaste-mta/posthaste/feedback"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/verp"
)

// TransportFeedback is the transport of reports that come back.
const TransportFeedback = "feedback"

// A Feedback is the taking in of reports that come back; the table [feedback].
type Feedback struct {
	Addresses  []string
	Delimiters verp.Delimiters
	UnparsedTo string // "": kept in files
}

func feedbackParameters() []parameter[Config] {
	return []parameter[Config]{
		define("addresses", list(feedbackAddress(), "addresses"), func(c *Config) *[]string { return &c.Feedback.Addresses }, []string{},
			"The addresses whose mail is read and counted as reports on sent mail; an address includes its forms with an encoded recipient, such as bounces+jane=example.net@example.com, and @bounces.example.com stands for a whole domain.",
			"Set it to the envelope senders of your mailings, and to the address that you have given to receivers for complaints."),
		define("verp_delimiters", delimiters(), func(c *Config) *verp.Delimiters { return &c.Feedback.Delimiters }, mustDelimiters(),
			"The characters before a recipient in such an address, and in place of the recipient's @.",
			"Set it to those with which your mail is sent, as verp_delimiters of Postfix."),
		define("unparsed_to", optional(mailbox(), "for files in queue_directory"), func(c *Config) *string { return &c.Feedback.UnparsedTo }, "",
			"The address to which messages that cannot be parsed are forwarded, from the null sender; without it, the last 1,000 of them are kept in the directory feedback-unparsed.",
			"Set it to an address at which people read bounces; it must not lead back here."),
	}
}

func mustDelimiters() verp.Delimiters {
	d, err := verp.ParseDelimiters(verp.Default)
	if err != nil {
		panic(err) // a constant
	}
	return d
}

// delimiters are two characters of an address.
func delimiters() kind[verp.Delimiters] {
	return kind[verp.Delimiters]{
		name:  "two characters",
		form:  `of - = + such as "+="`,
		plain: func(d verp.Delimiters) any { return d.String() },
		read: func(n *tomlfile.Node) (verp.Delimiters, *flaw) {
			s, f := readText(n, "two characters")
			if f != nil {
				return verp.Delimiters{}, f
			}
			d, err := verp.ParseDelimiters(s)
			if err != nil {
				return d, &flaw{message: err.Error()}
			}
			return d, nil
		},
	}
}

// feedbackAddress is an address, or "@" and a domain.
func feedbackAddress() kind[string] {
	return text("mail address", `such as ["bounces@example.com", "@bounces.example.com"]`, func(s string) (string, string) {
		if _, err := reports.NewMailboxes([]string{s}, verp.Codec{}); err != nil {
			hint := ""
			if s != "" && !strings.Contains(s, "@") {
				hint = "write " + tomlfile.QuoteText("@"+s) + " for all addresses of a domain"
			}
			return tomlfile.QuoteText(s) + " is neither an address nor a domain after an @", hint
		}
		return "", ""
	})
}

// Mailboxes returns the addresses of reports; nil if there are none.
func (c *Config) Mailboxes() (*reports.Mailboxes, error) {
	return reports.NewMailboxes(c.Feedback.Addresses, verp.Codec{Delimiters: c.Feedback.Delimiters})
}

// checkFeedback complains about parameters that have no effect, and about a loop.
func (l *loader) checkFeedback() {
	f, key := &l.c.Feedback, func(name string) string { return fullName(tableFeedback, name) }
	if len(f.Addresses) == 0 {
		if f.UnparsedTo != "" && !l.failed[key("addresses")] {
			l.complain("no reports are taken in without addresses", `add such as addresses = ["bounces@example.com"]`, key("unparsed_to"))
		}
		return
	}
	boxes, err := l.c.Mailboxes()
	if err != nil {
		return // each address has been checked
	}
	if _, loop := boxes.Match(mail.Address(f.UnparsedTo)); loop {
		l.complain("this is one of the addresses of [feedback] itself, so what cannot be understood would come back for ever", "choose another address", key("unparsed_to"), key("addresses"))
	}
}

// localPartEnough is a local_part_limit for all recipients that there are.
const localPartEnough = 200

// feedback warns of addresses whose reports are easily lost or misread.
func (w *warner) feedback() {
	f := &w.c.Feedback
	if len(f.Addresses) == 0 {
		return
	}
	if f.Delimiters.Ambiguous() {
		w.about(fullName(tableFeedback, "verp_delimiters"), "domains may contain the second character, so that jane@my-shop.example is read as jane-my@shop.example; mail that is sent with \"+=\" or \"-=\" is read rightly")
	}
	public := false
	for _, l := range w.c.AllListeners() {
		public = public || l.Purpose == inbound.PurposeRelay && l.Address.Unix == "" && !l.Address.TCP.Addr().IsLoopback()
	}
	if !public {
		w.about(fullName(tableFeedback, "addresses"), "no listener of purpose relay can be reached from other hosts, so only reports of this host itself arrive")
	}
	if w.c.SMTPD.LocalPartLimit < localPartEnough {
		w.about(fullName(tableFeedback, "addresses"), "local_part_limit is %d, so reports to addresses with a long recipient in them are refused; set it to %d", w.c.SMTPD.LocalPartLimit, localPartEnough)
	}
	for _, name := range []string{"postmaster", "abuse"} {
		for _, a := range f.Addresses {
			if strings.EqualFold(mail.Address(a).Local(), name) {
				w.about(fullName(tableFeedback, "addresses"), "%s is an address to which people write for help, and its mail would be read only by this program", a)
			}
		}
	}
}
