package maincf

import (
	"slices"
	"strings"
)

// A Service is an entry of master.cf.
type Service struct {
	Name    string   // "smtp", "127.0.0.1:10025", "private/maildrop"
	Type    string   // inet, unix, unix-dgram, fifo or pass
	Limit   string   // its maximum number of processes, or "-"
	Command string   // "smtpd"
	Args    []string // without the options
	Options []Entry  // of -o, in their order; an option that is there twice counts as the last one
	File    string
	Line    int
}

// Option returns the option that replaces a parameter; ok is false if there is none.
func (s *Service) Option(name string) (e Entry, ok bool) {
	for _, o := range slices.Backward(s.Options) {
		if o.Name == name {
			return o, true
		}
	}
	return Entry{}, false
}

// serviceTypes are the types of services.
var serviceTypes = []string{"inet", "unix", "unix-dgram", "fifo", "pass"}

// ParseMaster reads a master.cf. Of a service that occurs several times the last one counts.
func ParseMaster(file, text string) ([]Service, []Problem) {
	wrong := problems{file: file}
	var all []Service
	index := make(map[[2]string]int) // numbers of services by name and type
	for _, line := range logicalLines(text, &wrong) {
		fields := words(line.text, " \t")
		if len(fields) < 8 {
			wrong.add(line.number, "%s is not a service: it has %d columns, and a service has 8 or more (name, type, private, unprivileged, chroot, wakeup, processes, command)", shorten(line.text), len(fields))
			continue
		}
		s := Service{Name: fields[0], Type: fields[1], Limit: fields[6], Command: fields[7], File: file, Line: line.number}
		if !slices.Contains(serviceTypes, s.Type) {
			wrong.add(line.number, "%s is not a type of service: it is one of %s", shorten(s.Type), strings.Join(serviceTypes, ", "))
			continue
		}
		s.arguments(fields[8:], &wrong)
		key := [2]string{s.Name, s.Type}
		if i, again := index[key]; again {
			wrong.add(line.number, "the service %s of type %s is there again; that of line %d does not count", s.Name, s.Type, all[i].Line)
			all[i] = s
			continue
		}
		index[key] = len(all)
		all = append(all, s)
	}
	return all, wrong.all()
}

// arguments separates options from the other arguments of a service's command. Programs of
// pipe(8) and spawn(8) have arguments of their own behind argv=, which are not looked at.
func (s *Service) arguments(args []string, wrong *problems) {
	option := func(text string) {
		if inside, rest, ok := braced(text); ok && rest == "" {
			text = inside
		}
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			wrong.add(s.Line, "-o %s of the service %s is not name=value", shorten(text), s.Name)
			return
		}
		s.Options = append(s.Options, Entry{name, strings.TrimSpace(value), s.File, s.Line})
	}
	for i := 0; i < len(args); i++ {
		switch word := args[i]; {
		case strings.HasPrefix(word, "argv="):
			for _, one := range args[i:] {
				s.Args = append(s.Args, unbraced(one))
			}
			return
		case word == "-o":
			if i++; i == len(args) {
				wrong.add(s.Line, "the last -o of the service %s has nothing behind it", s.Name)
				return
			}
			option(args[i])
		case strings.HasPrefix(word, "-o"):
			option(word[2:])
		default:
			s.Args = append(s.Args, unbraced(word))
		}
	}
}

// unbraced returns an argument without the braces around it.
func unbraced(s string) string {
	if inside, rest, ok := braced(s); ok && rest == "" {
		return strings.TrimSpace(inside)
	}
	return s
}
