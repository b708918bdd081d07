package migrate

import (
	"path/filepath"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// read returns the text of a map or a file, and its name for messages. If it cannot be read
// there is a remark.
func (t *translation) read(s setting, one maincf.Table) (file, text string, ok bool) {
	file, text, err := t.in.Read(s.Name, one)
	if err != nil {
		t.lost(s, "%s cannot be read: %v. Name its text with --map %s=FILE, or write what is in it into the result.", one.String(), err, s.Name)
		return "", "", false
	}
	return file, text, true
}

// understood records what is wrong with the text of a map. What is in the file is not quoted: it may be
// secret.
func (t *translation) understood(all []maincf.Problem) {
	for _, p := range all {
		t.remark(NotUnderstood, "", p.Error())
	}
}

// keys returns the entries of a map of keys, or the words of a file.
func (t *translation) keys(s setting, one maincf.Table) []maincf.Pair {
	switch {
	case one.Type == maincf.TypeInline:
		return one.Pairs
	case one.IsText():
		file, text, ok := t.read(s, one)
		if !ok {
			return nil
		}
		pairs, wrong := maincf.ParseSource(file, text)
		t.understood(wrong)
		return pairs
	case one.Type == "" && strings.HasPrefix(one.Name, "/"):
		_, text, ok := t.read(s, one)
		if !ok {
			return nil
		}
		var all []maincf.Pair
		number := 0
		for line := range strings.Lines(text) {
			number++
			if inside := strings.TrimSpace(line); inside != "" && inside[0] != '#' {
				for _, word := range maincf.Words(inside) {
					all = append(all, maincf.Pair{Key: word, Line: number})
				}
			}
		}
		return all
	}
	return nil
}

// eachNetwork calls visit with the lines of a map of networks that are simple enough.
func (t *translation) eachNetwork(s setting, one maincf.Table, visit func(maincf.Network)) {
	file, text, ok := t.read(s, one)
	if !ok {
		return
	}
	all, wrong := maincf.ParseNetworks(file, text)
	t.understood(wrong)
	for _, n := range all {
		if n.Not || n.Within {
			t.lost(s, "%s:%d: a line with \"!\", or between if and endif, must be written by hand.", file, n.Line)
			continue
		}
		visit(n)
	}
}

// external returns why a map that is no text cannot be used.
func external(one maincf.Table) string {
	switch one.Type {
	case "mysql", "pgsql", "sqlite", "ldap", "mongodb", "memcache":
		return "databases are not asked"
	case "socketmap", "tcp", "unix", "nis", "netinfo", "nisplus":
		return "other programs are not asked"
	case "":
		return "it is not a map"
	}
	return "there are no maps of type " + one.Type
}

// domainList returns the domains of a list such as relay_domains: those in it, and those that are keys of its
// maps.
func (t *translation) domainList(s setting) (all []string) {
	where := "relay_domains"
	switch s.Name {
	case "mydestination":
		where = "user_domains"
	case "fast_flush_domains":
		where = s.Name
	}
	tables, ok := t.tables(s)
	if !ok {
		return nil
	}
	for _, one := range tables {
		switch {
		case one.Not:
			t.lost(s, "A domain with \"!\" in front is not excluded from others; leave it, or what contains it, out of the list: !%s.", one.Name)
		case one.Type == "" && !strings.HasPrefix(one.Name, "/"):
			all = append(all, strings.ToLower(one.Name))
		case one.Type == "" || one.IsText() || one.Type == maincf.TypeInline:
			for _, p := range t.keys(s, one) {
				if !strings.Contains(p.Key, "@") {
					all = append(all, strings.ToLower(p.Key))
				}
			}
		default:
			t.lost(s, "%s: %s. Write the domains into %s.", one.String(), external(one), where)
		}
	}
	return all
}

// mapFiles returns the maps of a parameter as they are named here: by the paths of their texts.
func (t *translation) mapFiles(s setting) []string {
	tables, ok := t.tables(s)
	if !ok {
		return nil
	}
	files := []string{}
	for _, one := range tables {
		switch {
		case (one.IsText() || one.HasExpressions()) && !filepath.IsAbs(one.Name):
			t.lost(s, "%s is not an absolute path.", one.String())
		case one.IsText():
			files = append(files, one.Name)
		case one.HasExpressions():
			files = append(files, "regexp:"+one.Name)
			if one.Type == "pcre" {
				t.different(s, "%s is read as expressions of RE2, which have neither lookarounds nor references; \"posthaste config check\" names the lines that cannot be used.", one.String())
			}
		case one.Type == maincf.TypeInline:
			var lines []string
			for _, p := range one.Pairs {
				lines = append(lines, p.Key+" "+p.Value)
			}
			t.lost(s, "There are no maps in the configuration itself. Write these lines to a file, and its path into %s: %s.", s.Name, strings.Join(lines, "; "))
		default:
			t.lost(s, "%s: %s. Write its entries to a text file, and name that in %s; a reload reads it again.", one.String(), external(one), s.Name)
		}
	}
	return files
}
