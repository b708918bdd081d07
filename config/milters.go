package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/milter"
)

// A Milter is a table [[milter]].
type Milter struct {
	milter.Config // without Network; Address is as written
	Listeners     []string
	Purposes      []inbound.Purpose
	NonSMTPD      bool
}

// milterParameters is the table of the parameters of [[milter]].
var milterParameters = []parameter[Milter]{
	define("name", text("name", `such as "opendkim"`, nil), func(m *Milter) *string { return &m.Name }, "",
		"The name of the milter in the log; without it, its address.",
		"Set it to something shorter than the address."),
	define("address", text("address", `such as "unix:/run/opendkim/opendkim.sock" or "inet:127.0.0.1:8891"`, checkMilterAddress), func(m *Milter) *string { return &m.Address }, "",
		"The address of the milter: a unix socket, or a host and a port.",
		"Set it for every milter."),
	define("listener", list(text("listener", `such as ["submission"]`, checkRuleListener), "listeners"), func(m *Milter) *[]string { return &m.Listeners }, nil,
		"The names of the listeners whose mail the milter sees; none means all, except for the submission socket (non_smtpd).",
		"Set it if some listeners need other milters than others, such as a signer for your users and a spam filter for the rest."),
	define("purpose", list(words(word[inbound.Purpose]{"relay", inbound.PurposeRelay}, word[inbound.Purpose]{"submission", inbound.PurposeSubmission}, word[inbound.Purpose]{"submissions", inbound.PurposeSubmissions}), "purposes"),
		func(m *Milter) *[]inbound.Purpose { return &m.Purposes }, nil,
		"The purposes of the listeners whose mail the milter sees; none means all.",
		"Set it instead of listener if the milter is for all listeners of a purpose."),
	define("non_smtpd", flag(), func(m *Milter) *bool { return &m.NonSMTPD }, false,
		"Whether the milter also sees the mail of local programs, from the submission socket and the maildrop (non_smtpd_milters); the client is 127.0.0.1 then.",
		"Set it to true for a milter that signs, or that keeps copies of all mail."),
	define("on_failure", words(word[milter.Failure]{"tempfail", milter.FailTemporarily}, word[milter.Failure]{"accept", milter.FailAccept}, word[milter.Failure]{"reject", milter.FailReject}, word[milter.Failure]{"quarantine", milter.FailQuarantine}),
		func(m *Milter) *milter.Failure { return &m.OnFailure }, milter.FailTemporarily,
		"The handling of a message if the milter cannot be reached, does not answer in time, or sends an invalid answer (milter_default_action): tempfail asks the client to try again later, accept continues without the milter, reject refuses the message, and quarantine accepts and holds it.",
		"Set it to accept if unfiltered mail is better than late mail."),
	define("milter_connect_timeout", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(m *Milter) *time.Duration { return &m.ConnectTimeout }, milter.Config{}.WithDefaults().ConnectTimeout,
		"The time limit for connecting to the milter and negotiating the protocol; reports of progress do not extend it.",
		"Lower it if clients should not wait for a milter on a host that is down."),
	define("milter_command_timeout", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(m *Milter) *time.Duration { return &m.CommandTimeout }, milter.Config{}.WithDefaults().CommandTimeout,
		"The time limit for the milter's answer to each of EHLO, MAIL, RCPT and DATA.",
		"Raise it if the milter makes slow lookups at these commands."),
	define("milter_content_timeout", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(m *Milter) *time.Duration { return &m.ContentTimeout }, milter.Config{}.WithDefaults().ContentTimeout,
		"The time limit for each part of the content, and for each answer after its end; a milter that reports progress gets more time, up to 10 minutes, or this time if it is longer, for all answers about one content.",
		"Raise it for a slow virus scanner; clients wait for 10 minutes at least (RFC 5321 4.5.3.2.6)."),
	define("daemon_name", optional(text("name", `such as "ORIGINATING"`, nil), "for the name of the listener"), func(m *Milter) *string { return &m.DaemonName }, "",
		"The value of the macro {daemon_name} for this milter (milter_macro_daemon_name).",
		"Set it if the milter chooses its action by that name, as OpenDKIM does with its parameter MTA."),
}

func standardMilter() Milter { return Milter{Config: milter.Config{}.WithDefaults()} }

func milterName(m *Milter) string { return m.Name }

// milterAddress returns an address as net.Dial takes it. Postfix's forms and libmilter's are known.
func milterAddress(s string) (network, address string, ok bool) {
	kind, rest, found := strings.Cut(s, ":")
	switch {
	case found && (kind == "unix" || kind == "local"):
		return "unix", rest, filepath.IsAbs(rest)
	case found && (kind == "inet" || kind == "inet6"):
		if port, host, at := strings.Cut(rest, "@"); at {
			rest = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		s = rest
	}
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return "tcp", s, err == nil && portErr == nil && host != "" && n > 0
}

func checkMilterAddress(s string) (message, hint string) {
	if _, _, ok := milterAddress(s); !ok {
		hint := `write such as "inet:127.0.0.1:8891"`
		if strings.HasPrefix(s, "unix:") || strings.HasPrefix(s, "local:") {
			hint = `write such as "unix:/run/opendkim/opendkim.sock"; the path must be absolute`
		}
		return tomlfile.QuoteText(s) + " is not the address of a milter", hint
	}
	return "", ""
}

// nameOfMilter returns the name of a milter: that in the file, or its address.
func nameOfMilter(t *tomlfile.Table) string {
	if name := textOf(t, "name"); name != "" {
		return name
	}
	return textOf(t, "address")
}

// milters creates the milters that the file defines. It runs after the listeners.
func (l *loader) milters(all *tomlfile.Entry) {
	loadList(l, tableMilter, all, milterParameters, standardMilter, nameOfMilter, func(t *tomlfile.Table, name string, m Milter, whole bool) {
		m.Name = name
		l.c.Milters = append(l.c.Milters, m)
		if whole {
			l.checkMilter(t, &m)
		}
	})
}

func (l *loader) checkMilter(t *tomlfile.Table, m *Milter) {
	about := l.complainer(tableMilter, m.Name, t)
	if m.Address == "" {
		about("address", "this milter has no address", `add such as address = "unix:/run/opendkim/opendkim.sock"`)
	}
	names := l.listenerNames()
	for _, name := range m.Listeners {
		switch {
		case name == socketName:
			about("listener", "the submission socket is not a listener of SMTP", "set non_smtpd = true")
		case !slices.Contains(names, name):
			hint := didYouMean(name, names)
			if hint == "" {
				hint = "there are " + strings.Join(names[1:], ", ")
			}
			about("listener", fmt.Sprintf("there is no listener %q", name), hint)
		}
	}
}

// sees reports whether a milter sees the mail of a listener.
func (m *Milter) sees(l *Listener) bool {
	return (len(m.Listeners) == 0 || slices.Contains(m.Listeners, l.Name)) && (len(m.Purposes) == 0 || slices.Contains(m.Purposes, l.Purpose))
}

// dial returns the Config that package milter needs.
func (m *Milter) dial() milter.Config {
	c := m.Config
	c.Network, c.Address, _ = milterAddress(m.Address)
	return c
}

// MakeMilters returns the milters of each listener, nil if there are none. Those of a configuration
// before it that are the same go on, with what is known of them.
func (c *Config) MakeMilters(host *milter.Host, before map[milter.Config]*milter.Milter) (*inbound.Milters, map[milter.Config]*milter.Milter, error) {
	if len(c.Milters) == 0 {
		return nil, nil, nil
	}
	all := make(map[milter.Config]*milter.Milter)
	made := make([]*milter.Milter, len(c.Milters))
	for i := range c.Milters {
		cfg := c.Milters[i].dial()
		if made[i] = before[cfg]; made[i] == nil {
			one, err := milter.New(cfg)
			if err != nil {
				return nil, nil, err
			}
			made[i] = one
		}
		all[cfg] = made[i]
	}
	chain := func(sees func(*Milter) bool) *milter.Chain {
		ch := &milter.Chain{Host: host}
		for i := range c.Milters {
			if sees(&c.Milters[i]) {
				ch.Milters = append(ch.Milters, made[i])
			}
		}
		if len(ch.Milters) == 0 {
			return nil
		}
		return ch
	}
	set := &inbound.Milters{Listeners: make(map[string]*milter.Chain)}
	listeners := c.AllListeners()
	for i := range listeners {
		set.Listeners[listeners[i].Name] = chain(func(m *Milter) bool { return m.sees(&listeners[i]) })
	}
	set.Listeners[""] = chain(func(m *Milter) bool { return m.NonSMTPD })
	usual := StandardListener()
	set.Others = chain(func(m *Milter) bool { return m.sees(&usual) })
	return set, all, nil
}

// MilterConnections returns the number of milters that one client can have a connection to: those of the
// listener that has most.
func (c *Config) MilterConnections() (most int) {
	local := 0
	for i := range c.Milters {
		if c.Milters[i].NonSMTPD {
			local++
		}
	}
	most = local
	for _, l := range append(c.AllListeners(), StandardListener()) {
		n := 0
		for i := range c.Milters {
			if c.Milters[i].sees(&l) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// milters warns of milters that see no mail.
func (w *warner) milters() {
	listeners := w.c.AllListeners()
	for i := range w.c.Milters {
		m := &w.c.Milters[i]
		if !m.NonSMTPD && !slices.ContainsFunc(listeners, func(l Listener) bool { return m.sees(&l) }) {
			w.about(fullName(tableMilter, m.Name), "it sees no mail: no listener meets both listener and purpose, and non_smtpd is false")
		}
	}
}

// reachTime limits how long a check waits for each milter.
const reachTime = 3 * time.Second

// unreachableMilters warns of milters to which there is no connection now.
func (c *Config) unreachableMilters() (list []Warning) {
	for i := range c.Milters {
		m := c.Milters[i].dial()
		ctx, cancel := context.WithTimeout(context.Background(), reachTime)
		var d net.Dialer
		conn, err := d.DialContext(ctx, m.Network, m.Address)
		cancel()
		if err == nil {
			conn.Close() // nothing was said
			continue
		}
		why := err.Error()
		if errors.Is(err, os.ErrPermission) {
			why += "; the user that runs the daemon must be able to write to the socket"
		}
		key := fullName(fullName(tableMilter, m.Name), "address")
		list = append(list, Warning{Key: key, Line: c.lines[key], Message: fmt.Sprintf("the milter cannot be reached now, and on_failure = %q decides about mail: %s", m.OnFailure, why)})
	}
	return list
}

// milterTables shows the milters in their order.
func (s *shower) milterTables() []shownTable {
	return showList(s, tableMilter, s.c.Milters, milterName, standardMilter, milterParameters)
}
