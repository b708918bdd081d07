package daemon

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A stop may take as long as the slowest receiver. Meanwhile an operator who asks must
// hear how many deliveries are left, and not that nothing is running; an order would
// be lost, and is refused.
func TestStatusDuringStop(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{MessageDelay: 700 * time.Millisecond})
	r := start(t, t.TempDir(), routes("d.test", box.address))
	c := client.New(r.d.started.AdminSocketPath())
	defer c.Close()
	status := func() admin.Status {
		s, err := c.Status(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r.feed(letter("a", "u@d.test"))
	r.until("a delivery under way", func() bool { return status().Core.Busy == 1 })
	r.stop()
	r.until("the stop", func() bool { return status().Core.Halted })
	var text strings.Builder
	if err := queue.Call(t.Context(), command.Streams{Out: &text, Err: io.Discard}, &socket.Finder{}, "status", "--queue-directory", r.dir); err != nil {
		t.Error(err)
	}
	if status().Core.Busy == 1 && !strings.Contains(text.String(), "stopping, 1 delivery to go") {
		t.Errorf("the status is\n%s", text.String())
	}
	var refused *client.Problem
	if _, err := c.Flush(context.Background()); !errors.As(err, &refused) || refused.Status != 503 {
		t.Errorf("flush: %v", err)
	}
	r.end()
	if n := len(box.deliveries()); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// The views of a daemon at work: mail that waits for a rate says so wherever it is
// looked at, and the destination has a host and a connection.
func TestViewsOfADaemon(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	r := start(t, t.TempDir(), routes("d.test", box.address)+"[transport.smtp]\ndestination_rate = \"1/h\"\n")
	c := client.New(r.d.started.AdminSocketPath())
	defer c.Close()
	r.feed(letter("a", "u@d.test"), letter("b", "u@d.test"))
	var found []admin.Destination
	r.until("mail that waits for its rate", func() bool {
		found = found[:0]
		_, err := c.Destinations(context.Background(), "127.0.0.1", []string{"rate-limited"}, false, 0, func(d *admin.Destination) error {
			found = append(found, *d)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(found) == 1 && found[0].Messages == 1 && len(box.deliveries()) == 1
	})
	if o := found[0].WaitReason; o == nil || o.Key != "transport.smtp.destination_rate" || o.Until == nil || time.Until(*o.Until) < time.Minute {
		t.Errorf("%+v", o)
	}
	d, err := c.Destination(context.Background(), found[0].Nexthop, 10)
	if err != nil || len(d.HostList) != 1 || len(d.Connections)+len(d.Ended) == 0 || len(d.Rates) != 1 || d.Rates[0].Used != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	waiting := 0
	err = c.List(context.Background(), client.Query{}, func(m *admin.Summary) error {
		if m.WaitReason != nil && m.WaitReason.Kind == "destination-rate" {
			waiting++
		}
		return nil
	})
	if err != nil || waiting != 1 {
		t.Errorf("%d messages wait for their rate, %v", waiting, err)
	}
}
