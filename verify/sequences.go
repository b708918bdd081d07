package verify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Sequences checks lines of a name and a sequence. The name holds the slot cost
// k, the loan l, the discount d, the minimum of slots m and the sizes of the
// messages, as in slots-k2-l0-d0-m3-10_2_2; the sequence is the number of the
// message for each delivery, one after the other.
//
// All messages arrive in order in the same second, every recipient has a
// destination of its own, there is one agent and every delivery succeeds. It
// returns a *Difference for the first line whose sequence is another.
func Sequences(text []byte) error {
	for n, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return fmt.Errorf("%w: line %d: %d words, want a name and a sequence", ErrNoRecording, n+1, len(words))
		}
		s, sizes, err := parseSequenceName(words[0])
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrNoRecording, n+1, err)
		}
		got, err := sequence(s.config(), sizes)
		if err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		if got != words[1] {
			return &Difference{Line: n + 1, Where: words[0], Got: got, Want: words[1]}
		}
	}
	return nil
}

// nameMax is longer than any name of a sequence.
const nameMax = 200

// parseSequenceName reads parameters and sizes.
func parseSequenceName(name string) (*settings, []int, error) {
	parts := strings.Split(name, "-")
	if len(parts) < 2 || len(name) > nameMax {
		return nil, nil, fmt.Errorf("%q is no name such as slots-k2-l0-d0-m3-10_2_2", name[:min(len(name), nameMax)])
	}
	s := newSettings(qmgr.TransportConfig{Agents: qmgr.AgentsOffered})
	letters := map[byte]string{'k': "delivery_slot_cost", 'l': "delivery_slot_loan", 'd': "delivery_slot_discount", 'm': "minimum_delivery_slots"}
	for _, p := range parts[1 : len(parts)-1] {
		if p == "" || letters[p[0]] == "" {
			return nil, nil, fmt.Errorf("%q: unknown parameter %q", name, p)
		}
		if err := s.set("smtp_"+letters[p[0]], p[1:]); err != nil {
			return nil, nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	var sizes []int
	for _, size := range strings.Split(parts[len(parts)-1], "_") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return nil, nil, fmt.Errorf("%q: %q is not a size", name, size)
		}
		sizes = append(sizes, n)
	}
	return s, sizes, nil
}

// sequence delivers messages of these sizes with one agent.
func sequence(cfg qmgr.Config, sizes []int) (string, error) {
	h, err := newHost(cfg, seconds(epoch), func(_ mail.QueueID, r mail.Recipient) mail.Route {
		return mail.Route{Transport: "smtp", Nexthop: r.Address.Domain()}
	})
	if err != nil {
		return "", err
	}
	for i, size := range sizes {
		list := make([]string, size)
		for r := range list {
			list[r] = fmt.Sprintf("u@d%dx%d.test", i+1, r)
		}
		h.admit(strconv.Itoa(i+1), list)
	}
	var b strings.Builder
	for {
		d, ok := h.offer("smtp")
		if !ok {
			return b.String(), nil
		}
		b.WriteString(h.name(d.Delivery.Envelope.ID))
		h.finish(d, endOK)
	}
}
