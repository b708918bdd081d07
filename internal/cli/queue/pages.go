package queue

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// WriteDestination writes what "posthaste queue hosts" shows of a destination, for a terminal
// of a width, or 0 if there is none.
func WriteDestination(to io.Writer, d *admin.DestinationDetail, width int, now time.Time) error {
	out := bufio.NewWriter(to)
	v := hostsView{out: out, width: width, now: now}
	v.show(d)
	return out.Flush()
}

// WriteMessage writes what "posthaste queue show" shows of a message, with the recipients that
// were asked for.
func WriteMessage(to io.Writer, d *admin.Detail, now time.Time) error {
	out := bufio.NewWriter(to)
	s := shower{out: out}
	s.head(d, now)
	s.recipients(d, now)
	if d.Next != nil {
		fmt.Fprintf(out, "  … and %s\n", human.Count(d.Total-*d.Next, "more recipient"))
	}
	return out.Flush()
}

// WriteFlows writes what "posthaste queue flows" shows of flows.
func WriteFlows(to io.Writer, page *admin.FlowPage, width int) error {
	out := bufio.NewWriter(to)
	if err := writeFlows(out, width, page); err != nil {
		return err
	}
	return out.Flush()
}
