package dsn

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// BenchmarkCompose is a report about one failure, and one about as many
// recipients as a report ever has, each with a reply of its own.
func BenchmarkCompose(b *testing.B) {
	for _, n := range []int{1, 5000} {
		r := reportOn()
		for i := range n {
			reply := unknownUser
			reply.Text = fmt.Sprintf("<user%d@example.net>: Recipient address rejected: User unknown", i)
			r.Recipients = append(r.Recipients, RecipientOf(outcome(mail.Address(fmt.Sprintf("user%d@example.net", i)), mail.ReportFailed, reply), 0))
		}
		o := Original{PartHeaders, []byte(strings.Repeat("Received: from a by b; Sat, 21 Nov 2026 10:00:00 +0000\r\n", 20))}
		b.Run(fmt.Sprintf("recipients=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := (Composer{}).Compose(io.Discard, r, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
