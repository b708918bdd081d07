package config

import (
	_ "embed" // the shipped rules
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/replies"
	"github.com/posthaste-mta/posthaste/replies/patternfile"
)

// A ReplyRule is a table [reply_rule.NAME]. Conditions are kept as written.
type ReplyRule struct {
	Name                       string
	Receivers, Codes, Statuses []string
	Words                      []string
	Text                       string
	Classes, Transports        []string
	Stages                     []string
	Times                      int
	Within                     time.Duration
	InARow                     bool
	SenderDomains              int
	Tenants                    int
	Recipients                 int
	RecipientDomains           int
	Result                     replies.Result
	Backoff                    time.Duration
	Suspend                    time.Duration
	SuspendFirst               time.Duration
	Concurrency                int
	Rate                       rate.Limits
	For                        time.Duration
}

func standardReplyRule(name string) ReplyRule {
	return ReplyRule{Name: name, Times: 1, Within: time.Hour, SenderDomains: 1, Tenants: 1, Recipients: 1, RecipientDomains: 1}
}

func replyRuleName(r *ReplyRule) string { return r.Name }

func replyParameters() []parameter[Config] {
	return []parameter[Config]{
		define("reply_classes", optional(text("path", "relative to queue_directory unless it begins with /", checkPath), "for none"), func(c *Config) *string { return &c.ReplyClasses }, "",
			"The file with your own patterns for the classes of replies, which take precedence over the built-in patterns (docs/replies.md); a reload reads it again.",
			"Set it if the log shows replies without a class, or with the wrong one; \"posthaste replies explain\" shows which pattern gave it."),
		define("shipped_reply_rules", flag(), func(c *Config) *bool { return &c.ShippedReplyRules }, false,
			"Whether the built-in rules for large receivers apply after those of [reply_rule.NAME]; \"posthaste replies rules\" shows them.",
			"Set it to true if you send much mail to these receivers and have no rules of your own for them."),
		define("block_reply_rules", flag(), func(c *Config) *bool { return &c.BlockReplyRules }, true,
			"Whether the built-in rules for receivers that block your address apply, after all others. Mail that is refused because of the address that it comes from is kept, and suspended for minutes at first, for hours if the refusals go on. The command \"posthaste replies rules\" shows them.",
			"Set it to false if mail that is refused with 5xx should always be returned at once, as Postfix does, or if rules of your own do this."),
	}
}

// replyRuleParameters is the table of the parameters of [reply_rule.NAME].
var replyRuleParameters = allReplyRuleParameters()

func allReplyRuleParameters() []parameter[ReplyRule] {
	checked := func(parse func(string) error) func(string) (string, string) {
		return func(s string) (string, string) {
			if err := parse(s); err != nil {
				return err.Error(), ""
			}
			return "", ""
		}
	}
	code := text("reply code", `such as ["421", "45x", "4xx"]`, checked(func(s string) error { _, err := replies.ParseCode(s); return err }))
	status := text("status code", `such as ["5.1.1", "x.7.26", "4.7.x"]`, checked(func(s string) error { _, err := replies.ParseStatus(s); return err }))
	phrase := text("phrase", `such as ["too many connections"]`, checked(func(s string) error { _, err := replies.NewWords(s); return err }))
	expression := optional(text("regular expression", `such as 'TSS?\d\d'`, checked(func(s string) error { _, err := replies.NewText(s); return err })), "for any text")
	class := text("class", "such as "+strings.Join(replies.ClassNames()[1:4], ", "), func(s string) (string, string) {
		if _, ok := replies.ParseClass(s); !ok {
			return tomlfile.QuoteText(s) + " is not a class of replies", didYouMean(s, replies.ClassNames())
		}
		return "", ""
	})
	transport := text("transport", `such as ["smtp", "bulk"]`, func(s string) (string, string) {
		if !tableName.MatchString(s) {
			return tomlfile.QuoteText(s) + " cannot be the name of a transport", ""
		}
		return "", ""
	})
	stage := text("stage", "such as "+strings.Join(mail.StageNames()[:4], ", "), func(s string) (string, string) {
		if _, ok := mail.ParseStage(s); !ok {
			return tomlfile.QuoteText(s) + " is not a stage of a conversation; there are " + strings.Join(mail.StageNames(), ", "), didYouMean(s, mail.StageNames())
		}
		return "", ""
	})
	span := period(time.Second, limit[time.Duration]{min: time.Second, max: 7 * 24 * time.Hour})
	none := period(time.Second, limit[time.Duration]{min: time.Second, max: 7 * 24 * time.Hour, zero: "none"})
	return []parameter[ReplyRule]{
		define("receiver", list(mxPattern(), "patterns"), func(r *ReplyRule) *[]string { return &r.Receivers }, nil,
			"The names of the hosts whose replies match the rule, where \".example.com\" stands for all names below example.com and a star for any characters.",
			"Set it to the names of a receiver's MX hosts."),
		define("code", list(code, "reply codes"), func(r *ReplyRule) *[]string { return &r.Codes }, nil,
			"Reply codes from 400 to 599, in which x stands for any digit at the end.",
			"Set it if the rule applies to one kind of refusals only."),
		define("status", list(status, "status codes"), func(r *ReplyRule) *[]string { return &r.Statuses }, nil,
			"Enhanced status codes (RFC 3463), in which x stands for any number; a reply without one does not match.",
			"Set it if the receiver documents its codes."),
		define("words", wholeList(phrase, "phrases"), func(r *ReplyRule) *[]string { return &r.Words }, nil,
			"Phrases of at least 4 characters, one of which is in the text of the reply, without regard to case, spaces and line ends.",
			"Set it to what the receiver says; it costs less than text."),
		define("text", expression, func(r *ReplyRule) *string { return &r.Text }, "",
			"A regular expression (RE2) that matches the text of the reply, whose lines are joined by spaces, without regard to case.",
			"Set it if phrases are not enough."),
		define("class", list(class, "reply classes"), func(r *ReplyRule) *[]string { return &r.Classes }, nil,
			"Classes of replies, as in the log (docs/replies.md).",
			"Set it to have one rule for what receivers say in different words."),
		define("transport", list(transport, "transports"), func(r *ReplyRule) *[]string { return &r.Transports }, nil,
			"The transports to whose mail the rule applies.",
			"Set it if kinds of mail need different rules."),
		define("stage", list(stage, "stages"), func(r *ReplyRule) *[]string { return &r.Stages }, nil,
			"What the reply answers: greeting, ehlo (also HELO and LHLO), auth, mail, rcpt, data or content. The log line delivery has it.",
			"Set it to distinguish what a receiver says about you, at greeting, ehlo and mail, from what it says about a recipient or a message."),
		define("times", integer(limit[int]{min: 1, max: 10_000}), func(r *ReplyRule) *int { return &r.Times }, 1,
			"The number of matching replies of one destination, within the time in \"within\", at which backoff, the suspension and the limits begin.",
			"Raise it if a single reply says little."),
		define("within", span, func(r *ReplyRule) *time.Duration { return &r.Within }, time.Hour,
			"The time within which the replies in \"times\" must come.",
			"Lower it for replies that come often."),
		define("in_a_row", flag(), func(r *ReplyRule) *bool { return &r.InARow }, false,
			"Whether a message that the destination accepts begins the count in \"times\" anew.",
			"Set it to true for a rule that should apply only if a receiver refuses everything."),
		define("sender_domains", integer(limit[int]{min: 1, max: 16}), func(r *ReplyRule) *int { return &r.SenderDomains }, 1,
			"The number of sender domains whose mail must have been refused, among the replies in \"times\". A reply at greeting, ehlo or auth counts for all.",
			"Raise it if a reply may be about the sender as well as about your address: then the domain of one customer does not stop the mail of others."),
		define("tenants", integer(limit[int]{min: 1, max: 16}), func(r *ReplyRule) *int { return &r.Tenants }, 1,
			"The number of tenants whose mail must have been refused, among the replies in \"times\". Mail without a tenant, and a reply at greeting, ehlo or auth, count for all.",
			"Raise it if tenants are customers whom you do not trust: then one of them cannot stop the mail of others by mail that is refused."),
		define("recipients", integer(limit[int]{min: 1, max: 16}), func(r *ReplyRule) *int { return &r.Recipients }, 1,
			"The number of recipients who must have been refused, among the replies in \"times\". A reply before RCPT counts for all, and the extension of an address (user+extension) does not matter. With this parameter, sender_domains, recipient_domains or tenants above 1, each message counts once.",
			"Raise it if a reply may be about the recipient as well as about your address."),
		define("recipient_domains", integer(limit[int]{min: 1, max: 16}), func(r *ReplyRule) *int { return &r.RecipientDomains }, 1,
			"The number of recipients' domains whose mail must have been refused for the destination to be suspended, if the replies are about recipients. Replies about recipients of one domain suspend the destination's mail to that domain only, as soon as the other conditions are met. Replies before RCPT suspend the destination without regard to domains.",
			"Raise it if receivers have customers with rules of their own: then one of them cannot stop your mail for the others."),
		define("result", words(word[replies.Result]{"as-replied", replies.ResultKept}, word[replies.Result]{"permanent", replies.ResultPermanent}, word[replies.Result]{"temporary", replies.ResultTemporary}),
			func(r *ReplyRule) *replies.Result { return &r.Result }, replies.ResultKept,
			"The outcome for the recipient: as-replied follows the code; permanent returns the mail at once, although the code is 4xx; temporary tries again, although it is 5xx.",
			"Set it to permanent for refusals that a receiver will repeat for days, and to temporary for a 5xx that passes, such as a block that is being lifted."),
		define("backoff", none, func(r *ReplyRule) *time.Duration { return &r.Backoff }, 0,
			"The time for which no mail is sent to the destination; its mail is deferred.",
			"Set it if the receiver wants to be left alone, or counts attempts."),
		define("suspend", periodOr(none, "until-resumed", mail.Indefinitely), func(r *ReplyRule) *time.Duration { return &r.Suspend }, 0,
			"The time for which the destination is suspended, as by \"posthaste queue suspend\": its mail waits without attempts, and \"posthaste queue resume\" ends it earlier. With until-resumed, nothing else ends it.",
			"Set it for replies on which a person should look at the cause, such as a block of your address."),
		define("suspend_first", none, func(r *ReplyRule) *time.Duration { return &r.SuspendFirst }, 0,
			"The time of the first suspension. If nothing is accepted after it, and the rule applies again, the next one lasts twice as long, and so on up to the time in \"suspend\". A restart begins anew.",
			"Set it if a suspension without need would harm you more than further attempts do."),
		define("concurrency", integer(limit[int]{min: 1, max: 1_000_000, zero: "no limit"}), func(r *ReplyRule) *int { return &r.Concurrency }, 0,
			"The number of connections to the destination at once, for the time in \"for\".",
			"Set it to 1 or 2 for receivers that say too many connections."),
		define("rate", rates(), func(r *ReplyRule) *rate.Limits { return &r.Rate }, rate.Limits{},
			"The number of messages to the destination in a span of time, for the time in \"for\"; a single limit, not a list.",
			"Set it for receivers that say too many messages."),
		define("for", none, func(r *ReplyRule) *time.Duration { return &r.For }, 0,
			"The time for which concurrency and rate apply, from the last reply that matched.",
			"Set it to the period over which the receiver counts, often an hour."),
	}
}

// replyRules creates the rules that the file defines, in its order.
func (l *loader) replyRules(all *tomlfile.Entry) {
	loadNamed(l, tableReplyRule, all, replyRuleParameters, standardReplyRule, func(t *tomlfile.Table, r ReplyRule, whole bool) {
		l.c.ReplyRules = append(l.c.ReplyRules, r)
		if whole {
			l.checkReplyRule(t, &r)
		}
	})
}

func (l *loader) checkReplyRule(t *tomlfile.Table, r *ReplyRule) {
	table := fullName(tableReplyRule, r.Name)
	about := func(name, message, hint string) {
		key := fullName(table, name)
		at, ok := l.places[key]
		if !ok {
			at = t.At
		}
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: message, Hint: hint})
	}
	limits := r.Concurrency > 0 || len(r.Rate.All()) > 0
	parties := r.SenderDomains > 1 || r.Tenants > 1 || r.Recipients > 1 || r.RecipientDomains > 1
	switch {
	case len(r.Receivers)+len(r.Codes)+len(r.Statuses)+len(r.Words)+len(r.Classes)+len(r.Stages) == 0 && r.Text == "":
		about("class", "this rule has no condition, and would be about every refusal", `add such as class = ["rate-limited"]`)
	case r.Backoff > 0 && r.Suspend > 0:
		about("backoff", "a destination that is suspended needs no backoff", "remove one of backoff and suspend")
	case r.RecipientDomains > 1 && r.Suspend == 0:
		about("recipient_domains", "domains are distinguished only for a suspension", `add such as suspend = "4h"`)
	case r.SuspendFirst > 0 && (r.Suspend == mail.Indefinitely || r.SuspendFirst >= r.Suspend):
		about("suspend_first", "this is no first step towards the time in suspend", `add such as suspend = "4h", or remove suspend_first`)
	case r.Result == replies.ResultKept && r.Backoff == 0 && r.Suspend == 0 && !limits:
		about("backoff", "nothing follows from this rule", `add such as backoff = "30m", or result = "permanent"`)
	case (r.InARow || parties) && r.Backoff == 0 && r.Suspend == 0 && !limits:
		about("times", "replies are counted only for backoff, suspend and the limits, and none is set", `add such as suspend = "4h"`)
	case r.InARow && r.Times == 1 && !parties:
		about("in_a_row", "one reply is no row", "add such as times = 5")
	case limits && r.For == 0:
		about("for", "it is not said how long the limits apply", `add such as for = "1h"`)
	case !limits && r.For > 0:
		about("for", "this is how long concurrency and rate apply, and none is set", `add such as concurrency = 1, or use backoff`)
	case len(r.Rate.All()) > 1:
		about("rate", "a rule has one limit", "")
	}
}

// rule returns the rule for package replies. Its conditions have been checked.
func (r *ReplyRule) rule() replies.Rule {
	one := replies.Rule{Name: r.Name, Transports: r.Transports, Result: r.Result, Times: r.Times, Within: r.Within, InARow: r.InARow, SenderDomains: r.SenderDomains, Tenants: r.Tenants, Recipients: r.Recipients, RecipientDomains: r.RecipientDomains,
		Rest: r.Backoff, Suspend: r.Suspend, SuspendFirst: r.SuspendFirst, Concurrency: r.Concurrency, For: r.For}
	for _, s := range r.Receivers {
		one.MX = append(one.MX, patternfile.Receiver(s))
	}
	one.Codes = parsed(r.Codes, replies.ParseCode)
	one.Statuses = parsed(r.Statuses, replies.ParseStatus)
	one.Words = parsed(r.Words, replies.NewWords)
	if r.Text != "" {
		one.Text = parsed([]string{r.Text}, replies.NewText)[0]
	}
	for _, name := range r.Classes {
		class, _ := replies.ParseClass(name)
		one.Classes = append(one.Classes, class)
	}
	for _, word := range r.Stages {
		stage, _ := mail.ParseStage(word)
		one.Stages = append(one.Stages, stage)
	}
	if limits := r.Rate.All(); len(limits) > 0 {
		one.RateCount, one.RatePer = limits[0].N, limits[0].Per
	}
	return one
}

// parsed returns the values of texts that are known to be valid.
func parsed[T any](texts []string, parse func(string) (T, error)) (all []T) {
	for _, s := range texts {
		v, err := parse(s)
		if err != nil {
			panic("config: " + err.Error())
		}
		all = append(all, v)
	}
	return all
}

// The rules that come with the program, each set as a file.
var (
	//go:embed reply_rules.toml
	receiverRules []byte
	//go:embed block_rules.toml
	blockRules []byte
)

// ShippedReplyRulesText returns the rules that come with the program, as a file: those for large
// receivers, then those for blocks.
func ShippedReplyRulesText() string { return string(receiverRules) + "\n" + string(blockRules) }

// builtIn returns rules that come with the program.
func builtIn(text []byte) []ReplyRule {
	c, err := Parse("rules of the program", text, Environment{Hostname: "localhost.example"})
	if err != nil {
		panic(fmt.Sprintf("the rules in the program: %v", err)) // a test reads them
	}
	return c.ReplyRules
}

// EveryReplyRule returns the rules in the order of trial, those that come with the program
// among them if they apply.
func (c *Config) EveryReplyRule() []ReplyRule {
	all := slices.Clip(c.ReplyRules)
	if c.ShippedReplyRules {
		all = append(all, builtIn(receiverRules)...)
	}
	if c.BlockReplyRules {
		rules := builtIn(blockRules)
		for i := range rules {
			if len(c.Tenants) < 2 { // all mail is that of one party
				rules[i].Tenants = 1
			}
		}
		all = append(all, rules...)
	}
	return all
}

// ReplyClassesMax is the maximum size of the file reply_classes, in bytes.
const ReplyClassesMax = 1 << 20

// ReplyClassesPath returns the path of the file reply_classes; "" if there is none.
func (c *Config) ReplyClassesPath() string { return c.inQueueDirectory(c.ReplyClasses) }

// Replies returns what package replies makes of the patterns and rules, with those of the
// file reply_classes, which it reads. The error names the file, and mistakes in it with
// their lines.
func (c *Config) Replies() (*replies.Book, error) {
	var patterns []replies.Pattern
	if path := c.ReplyClassesPath(); path != "" {
		info, err := os.Stat(path)
		if err == nil && (info.Size() > ReplyClassesMax || !info.Mode().IsRegular()) {
			err = fmt.Errorf("%s is not a file of at most %s", path, FormatSize(ReplyClassesMax))
		}
		var content []byte
		if err == nil {
			content, err = os.ReadFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no file %s", path)
		}
		if err == nil {
			patterns, err = patternfile.Parse(path, content)
		}
		if err != nil {
			return nil, fmt.Errorf("reply_classes: %w", err)
		}
	}
	patterns = append(patterns, patternfile.Shipped()...)
	var rules []replies.Rule
	for _, r := range c.EveryReplyRule() {
		rules = append(rules, r.rule())
	}
	return replies.New(patterns, rules), nil
}

// replyRules warns of rules that never apply.
func (w *warner) replyRules() {
	all := w.c.ReplyRules
	for i := range all {
		one := all[i].rule()
		for j := range all[:i] {
			if before := all[j].rule(); before.Covers(&one) {
				w.about(fullName(tableReplyRule, one.Name), "it never applies: [reply_rule.%s] before it is about all of its replies", before.Name)
				break
			}
		}
		for _, name := range one.Transports {
			if _, ok := w.c.Transports[name]; !ok {
				w.about(fullName(fullName(tableReplyRule, one.Name), "transport"), "there is no transport %q", name)
			}
		}
	}
}

// replyRuleTables shows rules in their order.
func (s *shower) replyRuleTables() []shownTable {
	return showNamed(s, tableReplyRule, s.c.ReplyRules, replyRuleName, standardReplyRule, replyRuleParameters)
}
