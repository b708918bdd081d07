package config

import (
	"fmt"
	"strings"

	reports "github.com/posthaste-mta/posthaste/feedback"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/verp"
)

// TransportFeedback is the transport of reports that come back.
const TransportFeedback = "feedback"

// A Feedback is a table [[feedback]]: the taking in of reports that come back.
type Feedback struct {
	Name       string // its number in the file
	Addresses  []string
	Tenant     string // "": by the rules on senders
	Delimiters shape.Opt[verp.Delimiters]
	Tags       shape.Opt[Tags] // unset: required if there are secrets
	UnparsedTo string          // "": kept in files
}

// Tags are whether addresses with a recipient in them must have a tag.
type Tags uint8

const (
	TagsNone     Tags = iota // they have none
	TagsAccepted             // some have one, which is checked
	TagsRequired             // those without one are not believed
)

func feedbackName(f *Feedback) string { return f.Name }

func standardFeedback() Feedback { return Feedback{} }

// feedbackParameters is the table of the parameters of [[feedback]].
var feedbackParameters = []parameter[Feedback]{
	define("addresses", list(feedbackAddress(), "addresses"), func(f *Feedback) *[]string { return &f.Addresses }, nil,
		"The addresses whose mail is read and counted as reports on sent mail; an address includes its forms with an encoded recipient, such as bounces+jane=example.net@example.com, and @bounces.example.com stands for a whole domain.",
		"Set it to the envelope senders of your mailings, and to the address that you have given to receivers for complaints."),
	define("tenant", optional(oneTenant(), "for the tenant to whom the rules on senders give such mail"), func(f *Feedback) *string { return &f.Tenant }, "",
		"The tenant for which reports to these addresses are counted.",
		"Set it if the tenants' senders have domains of their own, with a table [[feedback]] for each."),
	define("verp_delimiters", opt(delimiters()), func(f *Feedback) *shape.Opt[verp.Delimiters] { return &f.Delimiters }, shape.Opt[verp.Delimiters]{},
		"The characters before a recipient in such an address, and in place of the recipient's @; without it, default_verp_delimiters.",
		"Set it to those with which this mail is sent, by [verp.NAME] or by your programs."),
	define("verp_tags", opt(words(word[Tags]{"required", TagsRequired}, word[Tags]{"accepted", TagsAccepted}, word[Tags]{"no", TagsNone})), func(f *Feedback) *shape.Opt[Tags] { return &f.Tags }, shape.Opt[Tags]{},
		"The treatment of tags in such addresses: required counts a report only if the tag in its address is valid (verp_secret_file), accepted also counts reports to addresses without a tag, and no means that the addresses contain no tags. By default, it is required if verp_secret_file is set.",
		"Set it to accepted for some weeks after you have set verp_secret_file, and to no for addresses that your programs make."),
	define("unparsed_to", optional(mailbox(), "for files in queue_directory"), func(f *Feedback) *string { return &f.UnparsedTo }, "",
		"The address to which messages that cannot be parsed are forwarded, from the null sender; without it, the last 1,000 of them are kept in the directory feedback-unparsed.",
		"Set it to an address at which people read bounces; it must not lead back here."),
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
			d, err := verp.ParseDelimitersOf(s, smtp.VERPPossible) // see checkDelimiters
			if err != nil {
				_, err = verp.ParseDelimiters(s)
				return d, &flaw{message: err.Error()}
			}
			return d, nil
		},
	}
}

// feedbackAddress is an address, or "@" and a domain.
func feedbackAddress() kind[string] {
	return text("mail address", `such as ["bounces@example.com", "@bounces.example.com"]`, func(s string) (string, string) {
		if _, err := reports.NewMailbox(reports.Desk{Addresses: []string{s}}); err != nil {
			hint := ""
			if s != "" && !strings.Contains(s, "@") {
				hint = "write " + tomlfile.QuoteText("@"+s) + " for all addresses of a domain"
			}
			return tomlfile.QuoteText(s) + " is neither an address nor a domain after an @", hint
		}
		return "", ""
	})
}

// feedback creates the tables of reports. A single one may also be written [feedback].
func (l *loader) feedback(all *tomlfile.Entry) {
	if all != nil && all.Value.Kind == tomlfile.KindTable {
		one := *all
		one.Value = &tomlfile.Node{Kind: tomlfile.KindList, At: all.Value.At, Items: []*tomlfile.Node{all.Value}}
		all = &one
	}
	named := func(*tomlfile.Table) string { return "" } // its number
	loadList(l, tableFeedback, all, feedbackParameters, standardFeedback, named, func(_ *tomlfile.Table, name string, f Feedback, _ bool) {
		f.Name = name
		l.c.Feedback = append(l.c.Feedback, f)
	})
}

// Mailboxes returns the addresses of reports; nil if there are none. The secrets are those of
// LoadVERPSecrets.
func (c *Config) Mailboxes(secrets [][]byte) (all reports.Mailboxes, err error) {
	for i := range c.Feedback {
		f := &c.Feedback[i]
		d := reports.Desk{Addresses: f.Addresses, Tenant: f.Tenant, UnparsedTo: mail.Address(f.UnparsedTo), Codec: verp.Codec{Delimiters: f.Delimiters.Or(c.VERP.Delimiters)}}
		if tags := f.tags(c); tags != TagsNone {
			d.Codec.Secrets, d.Untagged = secrets, tags == TagsAccepted
		}
		one, err := reports.NewMailbox(d)
		if err != nil {
			return nil, err
		}
		if one != nil {
			all = append(all, one)
		}
	}
	return all, nil
}

// tags returns whether addresses must have tags.
func (f *Feedback) tags(c *Config) Tags {
	if c.VERP.SecretFile == "" {
		return TagsNone
	}
	return f.Tags.Or(TagsRequired)
}

// checkFeedback complains about parameters that have no effect, and about loops.
func (l *loader) checkFeedback() {
	boxes, err := l.c.Mailboxes(nil)
	if err != nil {
		return // each address has been checked
	}
	owner := make(map[string]string) // of addresses
	for i := range l.c.Feedback {
		f := &l.c.Feedback[i]
		key := func(name string) string { return fullName(fullName(tableFeedback, f.Name), name) }
		if len(f.Addresses) == 0 {
			if f.UnparsedTo != "" && !l.failed[key("addresses")] {
				l.complain("no reports are taken in without addresses", `add such as addresses = ["bounces@example.com"]`, key("unparsed_to"))
			}
			continue
		}
		for _, a := range f.Addresses {
			a = strings.ToLower(a)
			if other, found := owner[a]; found && other != f.Name {
				l.complain(fmt.Sprintf("%s is in another table [[feedback]] already", a), "remove it from one of them", key("addresses"))
			}
			owner[a] = f.Name
		}
		if _, loop := boxes.Match(mail.Address(f.UnparsedTo)); loop {
			l.complain("this is one of the addresses of [[feedback]] itself, so what cannot be understood would come back for ever", "choose another address", key("unparsed_to"), key("addresses"))
		}
		if f.Tags.Or(TagsNone) != TagsNone && l.c.VERP.SecretFile == "" && !l.failed["verp_secret_file"] {
			l.complain("tags cannot be checked without a secret, and verp_secret_file is not set", `set verp_secret_file, which is above the first [table]`, key("verp_tags"))
		}
		if f.Delimiters.Set {
			l.checkDelimiters(key("verp_delimiters"), f.Delimiters.Value)
		}
	}
}

// localPartEnough is a local_part_limit for all recipients that there are.
const localPartEnough = 200

// feedback warns of addresses whose reports are easily lost or misread.
func (w *warner) feedback() {
	for i := range w.c.Feedback {
		if len(w.c.Feedback[i].Addresses) > 0 {
			w.feedbackTable(&w.c.Feedback[i])
		}
	}
}

func (w *warner) feedbackTable(f *Feedback) {
	key := func(name string) string { return fullName(fullName(tableFeedback, f.Name), name) }
	if f.Delimiters.Or(w.c.VERP.Delimiters).Ambiguous() {
		w.about(key("verp_delimiters"), "domains may contain the second character, so that jane@my-shop.example is read as jane-my@shop.example; mail that is sent with \"+=\" or \"-=\" is read rightly")
	}
	public := false
	for _, l := range w.c.AllListeners() {
		public = public || l.Purpose == inbound.PurposeRelay && l.Address.Unix == "" && !l.Address.TCP.Addr().IsLoopback()
	}
	if !public {
		w.about(key("addresses"), "no listener of purpose relay can be reached from other hosts, so only reports of this host itself arrive")
	}
	if w.c.SMTPD.LocalPartLimit < localPartEnough {
		w.about(key("addresses"), "local_part_limit is %d, so reports to addresses with a long recipient in them are refused; set it to %d", w.c.SMTPD.LocalPartLimit, localPartEnough)
	}
	for _, name := range []string{"postmaster", "abuse"} {
		for _, a := range f.Addresses {
			if strings.EqualFold(mail.Address(a).Local(), name) {
				w.about(key("addresses"), "%s is an address to which people write for help, and its mail would be read only by this program", a)
			}
		}
	}
}

// feedbackTables shows the tables in their order.
func (s *shower) feedbackTables() []shownTable {
	return showList(s, tableFeedback, s.c.Feedback, feedbackName, standardFeedback, feedbackParameters)
}
