package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// followed runs a command until the end of the test, and returns what it has written so far.
func followed(t *testing.T, run func(context.Context, command.Streams) error) *transcript {
	t.Helper()
	out := &transcript{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, command.Streams{In: strings.NewReader(""), Out: out, Err: out}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return out
}

// What happens to a message can be followed by programs and by people, although the log says nothing of it; and so can what the connection says that carries
// it, from the moment at which watching begins.
func TestEventsAreFollowed(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir := t.TempDir()
	r := start(t, dir, "maximal_backoff_time = \"1h\"\n"+routes("d.test", box.address))
	events := func(args ...string) *transcript {
		return followed(t, func(ctx context.Context, s command.Streams) error {
			return command.Execute(ctx, queue.NewEventsCommand(), append(args, "--queue-directory", dir), s)
		})
	}
	all, some := events("--json"), events("--kind", "delivery", "--status", "deferred", "--domain", "d.test")
	wire := followed(t, func(ctx context.Context, s command.Streams) error {
		return command.Execute(ctx, queue.NewTraceSMTPCommand(), []string{"--site", "*", "--lines", "1", "--queue-directory", dir}, s)
	})
	inward := followed(t, func(ctx context.Context, s command.Streams) error {
		return command.Execute(ctx, queue.NewTraceSMTPCommand(), []string{"--recipient", "a@d.test", "--client", "127.0.0.0/8", "--lines", "1", "--queue-directory", dir}, s)
	})
	r.until("those who follow", func() bool {
		return all.count(`"msg":"subscribed"`) == 1 && some.count("subscribed") == 1 && r.d.wiretap.Watched() && r.d.wiretap.Visitors() != 0
	})
	r.feed(letter(key(1), "a@d.test"))
	r.settled()
	r.until("the events of a message that is delivered", func() bool {
		return all.count(`"msg":"accepted"`, `"nrcpt":1`) == 1 && all.count(`"msg":"delivery"`, `"to":"a@d.test"`, `"status":"sent"`, `"delay":0`, `"delays":[`) == 1 && all.count(`"msg":"removed"`) == 1
	})
	r.until("the conversation", func() bool {
		return wire.count("> MAIL FROM:<") == 1 && wire.count("> RCPT TO:<a@d.test>") == 1 && wire.count("- ", " octets of content") == 1 && wire.count("< 220 ") == 1
	})
	r.until("the client's conversation", func() bool {
		return inward.count("> 220 ") == 1 && inward.count("< RCPT TO:<a@d.test>") == 1 && inward.count("- ", " octets of content") == 1 && inward.count("> 250 2.0.0 Ok: queued as ") == 1
	})
	out := new(transcript)
	if err := command.Execute(t.Context(), queue.NewTraceSMTPCommand(), []string{"--site", "x", "--listener", "y", "--queue-directory", dir}, command.Streams{In: strings.NewReader(""), Out: out, Err: out}); err == nil || !strings.Contains(err.Error(), "--site is for connections to receivers") {
		t.Errorf("conditions of both directions: %v", err)
	}
	box.refuse(sink.AtMail, sink.RefuseForNow)
	r.feed(letter(key(2), "b@d.test"))
	r.waiting("mail that is put off", census{mail.AreaDeferred: 1})
	r.until("the event of a recipient who has to wait", func() bool {
		return some.count("delivery", "to=b@d.test", "status=deferred") == 1 && all.count(`"msg":"deferred"`, `"next":"`) == 1
	})
	if some.count("") != 2 {
		t.Errorf("who wants one event gets %s", some.tail(4096))
	}
}
