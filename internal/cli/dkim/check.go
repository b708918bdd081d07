package dkim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/spf13/cobra"

	ours "github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/resolve"
)

func newCheckCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:        "check [DOMAIN]",
		SuggestFor: []string{"test", "verify", "testkey"},
		Short:      "Check the records of the keys in the DNS",
		Long: `Look up the record of each key, or of the keys for one domain, with the name servers of the
configuration, and report what is wrong with it. The command signs a message with each key as
the daemon does, and verifies the signature with the record and an independent implementation. It
also looks up the DMARC policy of each domain whose mail is signed, because a signature in the name
of another domain may not count for that policy.

The exit status is 1 if something is wrong. Advice does not count as wrong.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, ring, err := readKeys(path)
			if err != nil {
				return err
			}
			keys, err := selected(ring, args)
			if err != nil {
				return err
			}
			resolver, err := resolve.New(cfg.Resolve())
			if err != nil {
				return err
			}
			defer resolver.Close()
			c := &check{dns: resolver, out: bufio.NewWriter(cmd.OutOrStdout()), seen: make(map[[2]string]bool)}
			if cfg.TLSReports.Organization != "" {
				c.reports, _ = ring.Choose(strings.ToLower(cfg.TLSReportsFrom().Domain()), mail.Flow{}, mail.Instant(time.Now().UnixNano()))
			}
			for _, k := range keys {
				c.key(cmd.Context(), k)
			}
			if err := c.out.Flush(); err != nil || c.wrong == 0 {
				return err
			}
			return exit.New(exit.Wrong, fmt.Errorf("%s found", plural(c.wrong)), "")
		},
	}
	configFlag(cmd.Flags(), &path)
	return cmd
}

func plural(n int) string {
	if n == 1 {
		return "1 problem was"
	}
	return fmt.Sprint(n, " problems were")
}

// A check asks the DNS about keys and writes what it finds.
type check struct {
	dns interface {
		TXT(ctx context.Context, name string) ([]string, error)
	}
	out   *bufio.Writer
	wrong int
	seen  map[[2]string]bool // domains of authors and of signatures whose policy was checked
	// reports are the keys that sign reports on TLS; none if there are no reports.
	reports []ours.Choice
}

func (c *check) key(ctx context.Context, k *ours.Key) {
	for _, domain := range k.SigningDomains() {
		name := ours.RecordName(k.Selector, domain)
		texts, err := c.dns.TXT(ctx, name)
		list := findings(k, domain, name, texts, err)
		if err == nil && slices.Contains(c.reports, ours.Choice{Key: k, Domain: domain}) {
			list = append(list, ours.CheckReports(texts)...)
		}
		c.report(fmt.Sprintf("%s (%s, %d bits%s)", name, k.Private.Algorithm(), k.Private.Bits(), validity(k, time.Now())), list)
	}
	for _, pattern := range k.Domains {
		c.policy(ctx, k, pattern)
	}
}

// findings returns the findings about a record: errors, warnings and advice.
func findings(k *ours.Key, domain, name string, texts []string, err error) []ours.Finding {
	if err != nil {
		return []ours.Finding{{Wrong: true, Text: err.Error()}}
	}
	all := ours.CheckRecord(k.Private, name, texts)
	for _, f := range all {
		if f.Wrong {
			return all
		}
	}
	if err := try(k, domain, texts); err != nil {
		all = append(all, ours.Finding{Wrong: true, Text: "a message that was signed with the key does not verify: " + err.Error()})
	}
	return all
}

// try signs a message and has the library verify it with the record.
func try(k *ours.Key, domain string, texts []string) error {
	ring, err := ours.NewRing([]ours.Key{{Name: k.Name, Domains: []string{domain}, Selector: k.Selector, Private: k.Private}})
	if err != nil {
		return err
	}
	content := "From: <postmaster@" + domain + ">\r\nSubject: test\r\n\r\nThis is a test.\r\n"
	var m ours.Message
	m.Begin(ring)
	m.Write([]byte(content))
	plan := m.Finish("", mail.Flow{}, mail.Instant(time.Now().UnixNano()))
	fields, err := plan.Sign()
	if err != nil {
		return err
	}
	found, err := dkim.VerifyWithOptions(io.MultiReader(strings.NewReader(string(fields)), strings.NewReader(content)),
		&dkim.VerifyOptions{LookupTXT: func(string) ([]string, error) { return texts, nil }})
	switch {
	case err != nil:
		return err
	case len(found) != 1:
		return errors.New("it has no signature")
	}
	return found[0].Err
}

// policy checks whether the signatures for the authors of a domain count for its policy.
func (c *check) policy(ctx context.Context, k *ours.Key, pattern string) {
	above := strings.TrimPrefix(pattern, "*.")
	signing := above
	if k.Domain != "" {
		signing = k.Domain
	}
	if pair := [2]string{pattern, signing}; above == "*" || c.seen[pair] {
		return
	} else {
		c.seen[pair] = true
	}
	var texts []string
	for _, name := range ours.DMARCNames(above) {
		found, err := c.dns.TXT(ctx, name)
		if err != nil {
			c.report("mail from "+pattern, []ours.Finding{{Wrong: true, Text: err.Error()}})
			return
		}
		if texts = ours.DMARCTexts(found); len(texts) > 0 {
			break
		}
	}
	c.report("mail from "+pattern, ours.CheckDMARC(pattern, signing, texts))
}

// report writes the findings about something.
func (c *check) report(about string, list []ours.Finding) {
	if len(list) == 0 {
		fmt.Fprintf(c.out, "%s: good\n", about)
	}
	for _, f := range list {
		level := "advice"
		if f.Wrong {
			level, c.wrong = "WRONG", c.wrong+1
		}
		fmt.Fprintf(c.out, "%s: %s: %s\n", about, level, human.Plain(f.Text))
	}
}
