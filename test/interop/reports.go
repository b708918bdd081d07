package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A readReport is a report as Python's email package sees it.
type readReport struct {
	Type       string              `json:"type"`
	ReportType string              `json:"report_type"`
	Parts      []string            `json:"parts"`
	Defects    []string            `json:"defects"`
	Subject    string              `json:"subject"`
	To         string              `json:"to"`
	Text       string              `json:"text"`
	Message    map[string]string   `json:"message"`
	Recipients []map[string]string `json:"recipients"`
	Original   map[string]string   `json:"original"`
}

// readReports lets Python read the reports of an account.
func readReports(ctx context.Context, t *trial, a *account) ([]readReport, error) {
	args := []string{"python3", filepath.Join(t.scripts, "read_reports.py")}
	for i, d := range a.reports {
		name := filepath.Join(t.dir, fmt.Sprintf("report-%d.eml", i))
		if err := os.WriteFile(name, d.Content, 0o600); err != nil {
			return nil, err
		}
		args = append(args, name)
	}
	out, err := command(ctx, "", args...)
	if err != nil {
		return nil, err
	}
	var list []readReport
	return list, json.Unmarshal([]byte(out), &list)
}

// verifyReports reports whether each letter whose recipients do not exist came
// back in one report that says so in every place in which programs look.
func verifyReports(list []readReport, failed []letter, remote, words string) error {
	letters := make(map[string]letter)
	for _, l := range failed {
		letters[l.key] = l
	}
	var wrong complaints
	for _, r := range list {
		l, found := letters[r.Original["message-id"]]
		if !found {
			wrong.add("a report about %q, which did not fail, or a second one", r.Original["message-id"])
			continue
		}
		delete(letters, l.key)
		for _, complaint := range r.complaints(l, remote, words) {
			wrong.add("%s: %s", l.key, complaint)
		}
	}
	for key := range letters {
		wrong.add("no report about %s", key)
	}
	return wrong.error("wrong in reports")
}

func (r readReport) complaints(l letter, remote, words string) (list []string) {
	check := func(what, got, want string) {
		if got != want {
			list = append(list, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	holds := func(what, got, part string) {
		if !strings.Contains(got, part) {
			list = append(list, fmt.Sprintf("%s is %q, want %q in it", what, got, part))
		}
	}
	check("type", r.Type, "multipart/report")
	check("report-type", r.ReportType, "delivery-status")
	check("parts", strings.Join(r.Parts[:min(2, len(r.Parts))], " "), "text/plain message/delivery-status")
	check("defects", strings.Join(r.Defects, " "), "")
	holds("To", r.To, string(l.sender))
	check("Reporting-MTA", r.Message["reporting-mta"], "dns; posthaste.test")
	check("Original-Envelope-ID", r.Message["original-envelope-id"], strings.Trim(l.key, "<>"))
	check("number of recipients", fmt.Sprint(len(r.Recipients)), fmt.Sprint(len(l.recipients)))
	for _, fields := range r.Recipients {
		_, to, _ := strings.Cut(fields["final-recipient"], "; ")
		if !slices.Contains(l.addresses(), to) {
			list = append(list, fmt.Sprintf("the recipient %q is none", fields["final-recipient"]))
		}
		check("Action", fields["action"], "failed")
		check("Status class", fields["status"][:min(1, len(fields["status"]))], "5")
		holds("Remote-MTA", fields["remote-mta"], remote)
		holds("Diagnostic-Code", fields["diagnostic-code"], "smtp; 550")
		holds("Diagnostic-Code", fields["diagnostic-code"], words)
		holds("the text", r.Text, to)
	}
	return list
}

// reportsOnce reports whether no report came twice.
func (a *account) reportsOnce() error {
	seen := make(map[string]bool)
	for _, d := range a.reports {
		if seen[d.Key] {
			return errors.New("the report " + d.Key + " came twice")
		}
		seen[d.Key] = true
	}
	return nil
}
