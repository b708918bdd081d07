package dkim

import (
	"bufio"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/mail"
)

func newRecordsCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:        "dns [DOMAIN]",
		SuggestFor: []string{"record", "records", "txt", "zone"},
		Short:      "Print the records that publish the keys",
		Long: `Print the records that publish the keys of the configuration, or those for one domain, as
lines of a zone file. Long records are split into strings of at most 255 bytes, as the DNS
requires; receivers join them again. If you enter a record in a provider's web form, write it in
one piece, without the quotes and the spaces between the strings.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, ring, err := readKeys(path)
			if err != nil {
				return err
			}
			keys, err := selected(ring, args)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			for _, k := range keys {
				fmt.Fprintf(out, "; [dkim.%s]: %s key of %d bits%s\n", k.Name, k.Private.Algorithm(), k.Private.Bits(), validity(k, time.Now()))
				for _, d := range k.SigningDomains() {
					fmt.Fprintln(out, dkim.ZoneLine(k.Selector, d, dkim.Record(k.Private)))
				}
			}
			return out.Flush()
		},
	}
	configFlag(cmd.Flags(), &path)
	return cmd
}

// validity says when a key signs, if that is not always.
func validity(k *dkim.Key, now time.Time) string {
	day := func(i mail.Instant) string { return time.Unix(0, int64(i)).UTC().Format(time.DateOnly) }
	switch at := mail.Instant(now.UnixNano()); {
	case at < k.From:
		return ", signs from " + day(k.From) + " on"
	case k.Until != 0 && at >= k.Until:
		return ", has signed until " + day(k.Until-1)
	case k.Until != 0:
		return ", signs until " + day(k.Until-1)
	}
	return ""
}
