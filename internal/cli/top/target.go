package top

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
)

// A targetKind is what kind of thing a row is about.
type targetKind uint8

const (
	targetNone targetKind = iota
	targetSite
	targetFlow
	targetTransport
	targetMessage
	targetSuspension
)

// A target is what a row is about: what is opened, suspended or tried again.
type target struct {
	kind          targetKind
	name          string // of the site, transport or flow; the queue ID; the value of the suspension
	class, tenant string // of a flow
	scope         string // of a suspension
}

// targetOf returns what a row of a view is about.
func targetOf(v view, r *row) target {
	if r == nil {
		return target{}
	}
	parts := strings.Split(r.key, "\n")
	switch v {
	case viewSites:
		return target{kind: targetSite, name: r.key}
	case viewFlows:
		return target{kind: targetFlow, class: parts[0], tenant: parts[1], name: parts[2]}
	case viewTransports:
		return target{kind: targetTransport, name: r.key}
	case viewMessages:
		return target{kind: targetMessage, name: r.key}
	default:
		return target{kind: targetSuspension, scope: parts[0], name: parts[1]}
	}
}

// String describes the target, as in "site smtp:example.net".
func (t target) String() string {
	switch t.kind {
	case targetSite:
		return "site " + t.name
	case targetFlow:
		return "flow " + cmp.Or(t.name, "-") + " of tenant " + cmp.Or(t.tenant, "-") + ", class " + cmp.Or(t.class, "-")
	case targetTransport:
		return "transport " + t.name
	case targetMessage:
		return "message " + t.name
	case targetSuspension:
		return t.scope + " " + t.name
	}
	return ""
}

// nexthop is the name of a site without its transport.
func (t target) nexthop() string {
	_, nexthop, _ := strings.Cut(t.name, ":")
	return nexthop
}

// filter selects the mail of the target; nil if there is no such filter.
func (t target) filter() *admin.Filter {
	switch t.kind {
	case targetFlow:
		f := &admin.Filter{Flow: []string{exactly(t.name, true)}, Tenant: []string{exactly(t.tenant, true)}, Class: []string{exactly(t.class, true)}}
		if t.class == "" {
			f.Class = []string{"-"}
		}
		return f
	case targetMessage:
		return &admin.Filter{IDs: []string{t.name}}
	case targetSite:
		return &admin.Filter{Site: []string{exactly(t.nexthop(), true)}}
	}
	return nil
}

// exactly returns a pattern that matches a text, or texts that contain it, whatever
// characters it has.
func exactly(text string, whole bool) string {
	quoted := regexp.QuoteMeta(text)
	if whole {
		quoted = "^" + quoted + "$"
	}
	return "/" + quoted + "/"
}

// scopes are what can be suspended of the target: scope and value of each.
func (t target) scopes() [][2]string {
	switch t.kind {
	case targetSite:
		return [][2]string{{"site", t.nexthop()}}
	case targetTransport:
		return [][2]string{{"transport", t.name}}
	case targetFlow:
		all := [][2]string{{"tenant", t.tenant}, {"class", t.class}}
		if t.tenant == "" {
			all = all[1:]
		}
		if t.class == "" {
			all = all[:len(all)-1]
		}
		return all
	case targetSuspension:
		return [][2]string{{t.scope, t.name}}
	}
	return nil
}

// pageText returns the page of a target: what is known of it, and why its mail waits.
func pageText(ctx context.Context, c *client.Client, t target, width int) (string, error) {
	var b bytes.Buffer
	switch t.kind {
	case targetSite:
		d, err := c.Destination(ctx, t.name, 50)
		if err != nil {
			return goneText(t, err)
		}
		if err := queue.WriteDestination(&b, &d, width, time.Now()); err != nil {
			return "", err
		}
	case targetMessage:
		d, err := c.Show(ctx, t.name, 0, 50)
		if err != nil {
			return goneText(t, err)
		}
		if err := queue.WriteMessage(&b, &d, time.Now()); err != nil {
			return "", err
		}
	case targetFlow:
		page, err := c.Flows(ctx, admin.FlowFilter{Flow: []string{exactly(t.name, true)}, Tenant: []string{exactly(t.tenant, true)}, Class: []string{exactly(t.class, true)}}, 1)
		if err != nil {
			return goneText(t, err)
		}
		if err := queue.WriteFlows(&b, &page, width); err != nil {
			return "", err
		}
	}
	x, err := explain(ctx, c, t)
	if err != nil {
		text, err := goneText(t, err)
		return b.String() + "\n" + text, err
	}
	fmt.Fprintln(&b)
	queue.WriteExplanation(&b, &x, width, time.Now())
	return b.String(), nil
}

// explain asks why the mail of a target waits.
func explain(ctx context.Context, c *client.Client, t target) (admin.Explanation, error) {
	switch t.kind {
	case targetSite:
		return c.Explain(ctx, "", "", t.name, "")
	case targetFlow:
		return c.Explain(ctx, "", "", "", exactly(t.name, true))
	default:
		return c.Explain(ctx, t.name, "", "", "")
	}
}

// goneText is the page of a target that the daemon does not have any more: mail is
// delivered while its page is open.
func goneText(t target, err error) (string, error) {
	if status := statusOf(err); status == 404 || status == 422 {
		return "No more of " + t.String() + ": " + err.Error() + "\n", nil
	}
	return "", err
}
