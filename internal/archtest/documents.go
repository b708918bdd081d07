package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// readmeLines is how long README.md may be: what does not fit is for docs/.
const readmeLines = 150

var link = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)[^)\n]*\)`)

// documents checks the markdown files: one title each, and links that lead
// somewhere.
func documents(t *Tree, _ *Rules) (out []Complaint) {
	for _, name := range t.documents {
		text, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(name)))
		if err != nil {
			out = append(out, Complaint{name, 0, err.Error()})
			continue
		}
		out = append(out, t.document(name, string(text))...)
	}
	return out
}

func (t *Tree) document(name, text string) (out []Complaint) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if name == "README.md" && len(lines) > readmeLines {
		out = append(out, Complaint{name, len(lines), fmt.Sprintf(
			"%d lines, want at most %d: move what a newcomer does not need to docs/", len(lines), readmeLines)})
	}
	titles := 0
	for i, line := range unfenced(lines) {
		if strings.HasPrefix(line, "# ") {
			if titles++; titles == 2 {
				out = append(out, Complaint{name, i + 1, "a second title: make it a section (##), or a document"})
			}
		}
		for _, m := range link.FindAllStringSubmatch(withoutCode(line), -1) {
			if why := t.dead(name, m[1]); why != "" {
				out = append(out, Complaint{name, i + 1, why})
			}
		}
	}
	if titles == 0 {
		out = append(out, Complaint{name, 1, "no title: begin with a line \"# …\""})
	}
	return out
}

// unfenced returns the lines, those of code blocks empty.
func unfenced(lines []string) []string {
	out := make([]string, len(lines))
	fence := ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		default:
			out[i] = line
		}
	}
	return out
}

func withoutCode(line string) string {
	parts := strings.Split(line, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		parts[i] = ""
	}
	return strings.Join(parts, "")
}

// dead returns why a link from a document leads nowhere, "" if it does not.
// Links to other hosts are not followed.
func (t *Tree) dead(from, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	name := from
	if file != "" {
		name = path.Join(path.Dir(from), file)
	}
	full := filepath.Join(t.root, filepath.FromSlash(name))
	if _, err := os.Stat(full); err != nil {
		return fmt.Sprintf("link to %s: there is no %s", target, name)
	}
	if anchor == "" || path.Ext(name) != ".md" {
		return ""
	}
	text, err := os.ReadFile(full)
	if err != nil {
		return err.Error()
	}
	seen := map[string]int{}
	for _, line := range unfenced(strings.Split(string(text), "\n")) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		slug := slugOf(heading)
		if n := seen[slug]; n > 0 {
			slug = fmt.Sprintf("%s-%d", slug, n)
		}
		seen[slugOf(heading)]++
		if slug == anchor {
			return ""
		}
	}
	return fmt.Sprintf("link to %s: %s has no such section", target, name)
}

// slugOf returns the anchor that a heading gets on the usual hosts: lower
// case, hyphens for spaces, without punctuation.
func slugOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
