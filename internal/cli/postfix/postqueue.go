package postfix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// postqueue stands in for Postfix's program of that name: -p, -j, -f, -i ID and
// -s site. As there, a wrong call is exit status 69.
func postqueue(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	o, err := getopt(args, postqueueOptions())
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Unavailable, err, usageOf(name)))
	}
	var call []string
	asked := 0
	for _, opt := range o.options {
		if strings.IndexByte("pjfis", opt.letter) >= 0 {
			asked++
		}
		switch opt.letter {
		case 'p':
			call = []string{"list", "--mailq"}
		case 'j':
			call = []string{"list", "--json"}
		case 'f':
			call = []string{"flush"}
		case 'i':
			call = []string{"flush", opt.value}
		case 's':
			call = []string{"flush", "--domain", siteOf(opt.value)}
		}
	}
	switch {
	case len(o.rest) > 0:
		err = fmt.Errorf("unexpected argument %q", human.Plain(o.rest[0]))
	case asked == 0:
		err = errors.New("say what to do")
	case asked > 1:
		err = errors.New("say one thing to do at a time")
	}
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Unavailable, err, usageOf(name)))
	}
	if call[0] == "flush" {
		return flush(ctx, name, s, call[1:]...)
	}
	return delegate(ctx, name, s, call...)
}

// flush is what postqueue and mailq do to try mail now.
func flush(ctx context.Context, name string, s command.Streams, args ...string) exit.Code {
	err := tryNow(ctx, s, &socket.Finder{System: true}, args...)
	if known := (*exit.Error)(nil); errors.As(err, &known) && known.Code == exit.Usage {
		err = exit.New(exit.Unavailable, err, usageOf(name))
	}
	return command.Complain(s.Err, name, err)
}

// tryNow tries mail now, as Postfix's programs do: in silence, since cron would mail what they
// say, and with success if no such mail is there, or not any more. (Postfix refuses a site
// that is not in fast_flush_domains; here all sites can be flushed.)
func tryNow(ctx context.Context, s command.Streams, p *socket.Finder, args ...string) error {
	s.Out = io.Discard
	err := queue.Call(ctx, s, p, append([]string{"flush"}, args...)...)
	if known := (*exit.Error)(nil); errors.As(err, &known) && (known.Code == exit.NoInput || known.Code == exit.Nothing) {
		return nil
	}
	return err
}

// siteOf returns the domain of recipients for the site of -s. One that is an IP address has brackets there, as in
// Postfix; around a name, which Postfix refuses, they are left out.
func siteOf(value string) string {
	bare := strings.Trim(value, "[]")
	if _, err := netip.ParseAddr(strings.TrimPrefix(strings.ToLower(bare), "ipv6:")); err == nil {
		return "[" + bare + "]"
	}
	return bare
}

// postqueueOptions are its options: v and c matter to Postfix alone.
func postqueueOptions() optionSet {
	return optionSet{flags: "pjfv", valued: "isc"}
}
