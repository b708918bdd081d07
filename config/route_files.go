package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/route"
)

// RouteFiles are the paths of files with routes in addition to those of [routes] and
// [sender_routes], and what was read from them.
type RouteFiles struct {
	Recipients, Senders []string

	routes, senderRoutes []Route
}

func routeFileParameters() []parameter[Config] {
	files := list(text("file", `the path of a text file, such as ["/etc/posthaste/routes"]`, checkRouteFile), "files")
	return []parameter[Config]{
		define("routes_file", files, func(c *Config) *[]string { return &c.RouteFiles.Recipients }, []string{},
			"Files with further routes, one in each line: a pattern and a target, as in [routes], with white space in between; they are read at a start and at each reload.",
			"Set it if a program writes the routes, or if there are too many for this file."),
		define("sender_routes_file", files, func(c *Config) *[]string { return &c.RouteFiles.Senders }, []string{},
			"Files like those of routes_file for [sender_routes].",
			"Set it if many senders have routes of their own."),
	}
}

func checkRouteFile(s string) (string, string) {
	kind, path, typed := strings.Cut(s, ":")
	switch {
	case filepath.IsAbs(s):
		return "", ""
	case typed && slices.Contains(databases, kind):
		return tomlfile.QuoteText(s) + " is the type of a database, and the text that it is made of is read here", "write " + tomlfile.QuoteText(path)
	case typed && (kind == "regexp" || kind == "pcre"):
		return tomlfile.QuoteText(s) + " is of no type: each line that begins with a slash has a regular expression", "write " + tomlfile.QuoteText(path)
	}
	return tomlfile.QuoteText(s) + " is not an absolute path", "write it from the root: the program may be started in any directory"
}

// routeMistakesMax is the number of mistakes of a file that are reported.
const routeMistakesMax = 20

// readRouteFiles reads the files of routes. Its error joins the mistakes of all files, each with its
// file and line.
func (c *Config) readRouteFiles() error {
	recipients, err := c.readRoutes("routes_file", c.RouteFiles.Recipients, c.Routes, route.ParseRule)
	senders, senderErr := c.readRoutes("sender_routes_file", c.RouteFiles.Senders, c.SenderRoutes, route.ParseSenderRule)
	if err := errors.Join(err, senderErr); err != nil {
		return err
	}
	c.RouteFiles.routes, c.RouteFiles.senderRoutes = recipients, senders
	return nil
}

// readRoutes reads the files of one parameter. The routes that the configuration has itself come
// first, and a file may not have others for the same addresses.
func (c *Config) readRoutes(parameter string, files []string, own []Route, parse func(string) (route.Rule, error)) ([]Route, error) {
	if len(files) == 0 {
		return nil, nil
	}
	r := routeReader{transports: c.Transports, parse: parse, places: make(map[string]string)}
	for _, one := range own {
		if rule, err := parse(one.Pattern + " :"); err == nil { // checked before
			r.places[rule.Key] = "the configuration"
		}
	}
	var wrong []error
	for _, path := range files {
		if err := r.file(path); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", parameter, err))
		}
	}
	slices.SortStableFunc(r.routes, compareRoutes)
	return r.routes, errors.Join(wrong...)
}

// A routeReader reads routes.
type routeReader struct {
	transports map[string]Transport
	parse      func(string) (route.Rule, error)
	places     map[string]string // of the routes so far, by the rules' canonical keys
	routes     []Route
}

// file reads one file.
func (r *routeReader) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err // it names the operation and the path
	}
	defer f.Close()
	about, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !about.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case about.Size() > mapSizeMax:
		return fmt.Errorf("%s is larger than %s", path, FormatSize(mapSizeMax))
	}
	return r.lines(path, f)
}

// lines reads the lines of a file. A line that is empty, or begins with #, is skipped.
func (r *routeReader) lines(path string, text io.Reader) error {
	var wrong []error
	scanner := bufio.NewScanner(text)
	number := 1
	for ; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		place := fmt.Sprintf("%s:%d", path, number)
		if err := r.line(line, place); err != nil {
			if wrong = append(wrong, fmt.Errorf("%s: %w", place, err)); len(wrong) == routeMistakesMax {
				return errors.Join(append(wrong, fmt.Errorf("%s: and so on", path))...)
			}
		}
	}
	if err := scanner.Err(); err != nil {
		wrong = append(wrong, fmt.Errorf("%s:%d: %w", path, number, err))
	}
	return errors.Join(wrong...)
}

func (r *routeReader) line(line, place string) error {
	pattern, target := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		pattern, target = line[:i], strings.TrimSpace(line[i:])
	}
	if target == "" {
		return fmt.Errorf("%s has no target; write such as %s relay:[mail.example.net]:587", tomlfile.QuoteText(pattern), pattern)
	}
	rule, err := r.parse(pattern + " " + target)
	if err != nil {
		message, hint := explainRoute(pattern+" "+target, err)
		return withHint(message, hint)
	}
	if name := rule.Route.Transport; name != "" {
		if _, known := r.transports[name]; !known {
			return withHint(fmt.Sprintf("there is no transport %q", name), didYouMean(name, slices.Sorted(maps.Keys(r.transports))))
		}
	}
	if first, found := r.places[rule.Key]; found {
		return fmt.Errorf("%s has a route already, in %s; remove one of them", tomlfile.QuoteText(pattern), first)
	}
	r.places[rule.Key] = place
	r.routes = append(r.routes, Route{Pattern: pattern, Target: target})
	return nil
}

func withHint(message, hint string) error {
	if hint != "" {
		message += "; " + hint
	}
	return errors.New(message)
}
