package migrate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// A filter is a milter of Postfix.
type filter struct {
	address    string // as it is written here
	onFailure  string
	timeouts   map[string]string // by name here
	listeners  []string
	daemonName string
	local      bool // mail of programs on this machine goes through it
	origins    []string
	everywhere bool
}

// milters translates the milters of main.cf and of services.
func (t *translation) milters(listeners []*listener) {
	var all []*filter
	find := func(f filter) *filter {
		for _, one := range all {
			if one.address == f.address && one.daemonName == f.daemonName {
				return one
			}
		}
		all = append(all, &f)
		return all[len(all)-1]
	}
	global := t.get("smtpd_milters")
	if global.set && global.text == "" {
		t.notNeeded("No milter sees mail", global.line())
	}
	for _, l := range listeners {
		s := t.of(l.service, "smtpd_milters")
		line := lineIn(l.service, s)
		if s.set && s.text == "" {
			t.notNeeded("This listener has no milter", line)
			continue
		}
		if o := t.option(l.service, "receive_override_options"); o.set && slices.Contains(o.words(), "no_milters") {
			continue
		}
		for _, f := range t.filtersIn(s, l.service, line) {
			one := find(f)
			one.origins = appendNew(appendNew(one.origins, f.origins...), line)
			for _, table := range l.tables {
				one.listeners = append(one.listeners, strings.Trim(table.get("name").value, `"`))
			}
		}
	}
	for _, one := range all {
		one.everywhere = !slices.ContainsFunc(listeners, func(l *listener) bool {
			return len(l.tables) > 0 && !slices.Contains(one.listeners, strings.Trim(l.tables[0].get("name").value, `"`))
		})
	}
	local := t.get("non_smtpd_milters")
	for _, f := range t.filtersIn(local, nil, local.line()) {
		one := slices.IndexFunc(all, func(other *filter) bool { return other.address == f.address })
		if one < 0 {
			t.todo(local, "The milter %s is for mail of local programs only. Here it sees the mail of listeners, too, unless listener or purpose of [[milter]] names others.", f.address)
			f.everywhere = true
			all = append(all, &f)
			one = len(all) - 1
		}
		all[one].local = true
		all[one].origins = appendNew(all[one].origins, local.line())
	}
	if local.set && local.text == "" {
		t.notNeeded("Mail of local programs goes through no milter", local.line())
	}
	t.writeMilters(all)
}

func appendNew(all []string, more ...string) []string {
	for _, s := range more {
		if s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func (t *translation) writeMilters(all []*filter) {
	var names []string
	for _, f := range all {
		one := t.doc.add("milter", f.origins...)
		name := milterName(f.address)
		for n := 2; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s-%d", milterName(f.address), n)
		}
		names = append(names, name)
		one.set("name", name)
		one.set("address", f.address)
		if !f.everywhere {
			one.set("listener", f.listeners)
			for _, l := range t.doc.tables {
				if l.kind == "listener" && l.has("name") {
					t.named = true
				}
			}
		}
		if f.local {
			one.set("non_smtpd", true)
		}
		if f.onFailure != "" {
			one.set("on_failure", f.onFailure)
		}
		for _, key := range []string{"milter_connect_timeout", "milter_command_timeout", "milter_content_timeout"} {
			if v := f.timeouts[key]; v != "" {
				one.set(key, v)
			}
		}
		if f.daemonName != "" {
			one.set("daemon_name", f.daemonName)
		}
	}
}

// milterName returns the name of a milter: the last part of its path, or its host and port.
func milterName(address string) string {
	if socket, ok := strings.CutPrefix(address, "unix:"); ok {
		return strings.TrimSuffix(path.Base(socket), path.Ext(socket))
	}
	return strings.Trim(unnamed.ReplaceAllString(strings.TrimPrefix(address, "inet:"), "-"), "-")
}

// filtersIn returns the milters of a list: of a service, or of local programs.
func (t *translation) filtersIn(s setting, service *maincf.Service, line string) (all []filter) {
	of := t.get
	if service != nil {
		of = func(name string) setting { return t.of(service, name) }
	}
	action := of("milter_default_action")
	daemon := of("milter_macro_daemon_name")
	for _, word := range s.words() {
		address, options := word, []string(nil)
		if strings.HasPrefix(word, "{") {
			parts := strings.Split(strings.Trim(word, "{}"), ",")
			fields := strings.Fields(parts[0])
			if len(fields) == 0 {
				t.remark(NotUnderstood, "A milter in braces has no address.", line)
				continue
			}
			address, options = fields[0], append(fields[1:], parts[1:]...)
		}
		f := filter{address: t.milterAddress(address), timeouts: make(map[string]string)}
		f.onFailure = t.failure(action.text, line)
		if daemon.set && daemon.text != "" {
			f.daemonName = daemon.text
			f.origins = appendNew(f.origins, lineOfAny(service, daemon))
		}
		for _, key := range []string{"milter_connect_timeout", "milter_command_timeout", "milter_content_timeout"} {
			if o := t.get(key); o.set {
				if v, err := formSeconds.value(o.text); err == nil {
					f.timeouts[key] = v.(string)
					f.origins = appendNew(f.origins, o.line())
				}
			}
		}
		if action.set {
			f.origins = appendNew(f.origins, lineOfAny(service, action))
		}
		for _, o := range options {
			name, value, _ := strings.Cut(o, "=")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			switch name {
			case "":
			case "default_action":
				f.onFailure = t.failure(value, line)
			case "connect_timeout", "command_timeout", "content_timeout":
				if v, err := formSeconds.value(value); err == nil {
					f.timeouts["milter_"+name] = v.(string)
				}
			case "protocol":
			default:
				t.remark(Lost, fmt.Sprintf("%q of a milter is not known.", name), line)
			}
		}
		all = append(all, f)
	}
	return all
}

// lineOfAny returns the line of a parameter of a service, or of main.cf if there is none.
func lineOfAny(service *maincf.Service, s setting) string {
	if service == nil {
		return s.line()
	}
	return lineIn(service, s)
}

// failure returns on_failure for a default action of Postfix; "" for the default.
func (t *translation) failure(action, line string) string {
	switch action {
	case "accept", "reject", "quarantine":
		return action
	case "shutdown":
		t.remark(Different, "Clients are not cut off if a milter fails; they get 451 (on_failure = \"tempfail\").", line)
	}
	return ""
}

// milterAddress returns the address of a milter as it is written here.
func (t *translation) milterAddress(s string) string {
	kind, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && (kind == "unix" || kind == "local"):
		if !path.IsAbs(rest) {
			rest = t.inQueue(rest)
		}
		return "unix:" + rest
	case ok && (kind == "inet" || kind == "inet6"):
		if port, host, at := strings.Cut(rest, "@"); at {
			rest = host + ":" + port
		}
		return "inet:" + rest
	}
	return "inet:" + s
}
