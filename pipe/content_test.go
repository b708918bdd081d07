//go:build unix

package pipe

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/posthaste-mta/posthaste/mail"
)

// written returns a message as a program with some flags gets it.
func written(t *testing.T, letters, content string, d mail.Delivery) string {
	t.Helper()
	flags, err := ParseFlags(letters)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := writer{out: bufio.NewWriter(&out), flags: flags, delivery: &d}
	if err := w.message(iotest.HalfReader(strings.NewReader(content))); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} \d\d:\d\d:\d\d \d{4}`).ReplaceAllString(out.String(), "DATE")
}

func TestContent(t *testing.T) {
	long, buffer := strings.Repeat("From .", lineMax/3), strings.Repeat("y", lineMax)
	for _, c := range []struct{ letters, content, want string }{
		{"", "A: b\r\n\r\n.\r\nFrom x\r\n", "A: b\n\n.\nFrom x\n"},
		{"B", "A: b\r\n\r\nx\r\n", "A: b\n\nx\n\n"},
		{"D", "A: b\r\n", "Delivered-To: b@x\nA: b\n"},
		{"F", "A: b\r\n", "From a@example.org  DATE\nA: b\n"},
		{"O", "A: b\r\n", "X-Original-To: first+1@y\nA: b\n"},
		{"R", "A: b\r\n", "Return-Path: <a@example.org>\nA: b\n"},
		{"FRODB", "A: b\r\n", "From a@example.org  DATE\nReturn-Path: <a@example.org>\nX-Original-To: first+1@y\nDelivered-To: b@x\nA: b\n\n"},
		{".", "A: b\r\n\r\n.\r\n..x\r\n", "A: b\n\n..\n...x\n.\n"},
		{">", "From: b\r\n\r\nFrom x\r\n>From x\r\n from\r\n", "From: b\n\n>From x\n>From x\n from\n"},
		{">.", "A: b\r\n\r\n" + long + "\r\n." + long + "\r\n", "A: b\n\n>" + long + "\n.." + long + "\n.\n"},
		{"", "A: b\r\n\r\na\rb\r\r\nno end", "A: b\n\na\rb\r\nno end\n"},
		{"B", "", "\n"},
		{"", "Delivered-To: b@x\r\n", "Delivered-To: b@x\n"}, // the loop is looked for with D only
		{"D", buffer + "Delivered-To: b@x\r\n", "Delivered-To: b@x\n" + buffer + "Delivered-To: b@x\n"},
		{".>", buffer + ".z\r\n" + buffer + "From x\r\n", buffer + ".z\n" + buffer + "From x\n.\n"},
		{"", buffer[1:] + "\rz\r\n" + buffer[1:] + "\r\n", buffer[1:] + "\rz\n" + buffer[1:] + "\n"},
	} {
		d := delivery("b@x")
		d.Recipients[0].ORcpt = "rfc822;first+2B1@y"
		if got := written(t, c.letters, c.content, d); got != c.want {
			t.Errorf("%q, %.60q: got %.200q, want %.200q", c.letters, c.content, got, c.want)
		}
	}
	d := delivery("b@x")
	d.Envelope.Sender = ""
	if got, want := written(t, "FR", "A: b\r\n", d), "From MAILER-DAEMON  DATE\nReturn-Path: <>\nA: b\n"; got != want {
		t.Errorf("null sender: %q, want %q", got, want)
	}
}

// The writer agrees with an obvious twin on random content, whatever is read at once.
func TestContentTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	parts := []string{"\r\n", "\r\n", ".", "From ", "x", "\r", strings.Repeat("y", lineMax-3), "\r\n\r\n", "Delivered-To: c@x"}
	for round := range 60 {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		content := b.String()
		if content != "" {
			content += "\r\n"
		}
		letters := ""
		for _, l := range "D.>B" {
			if rng.IntN(2) == 0 {
				letters += string(l)
			}
		}
		if got, want := written(t, letters, content, delivery("b@x")), twin(letters, content); got != want {
			t.Fatalf("round %d, %q: %.300q becomes %.300q, want %.300q", round, letters, content, got, want)
		}
	}
}

// twin does the same with the whole message in memory.
func twin(letters, content string) string {
	out := ""
	if strings.Contains(letters, "D") {
		out = "Delivered-To: b@x\n"
	}
	for line := range strings.SplitAfterSeq(content, "\r\n") {
		if line == "" {
			continue
		}
		if strings.Contains(letters, ".") && line[0] == '.' {
			line = "." + line
		}
		if strings.Contains(letters, ">") && strings.HasPrefix(line, "From ") {
			line = ">" + line
		}
		out += strings.TrimSuffix(line, "\r\n") + "\n"
	}
	for _, end := range []struct{ letter, text string }{{"B", "\n"}, {".", ".\n"}} {
		if strings.Contains(letters, end.letter) {
			out += end.text
		}
	}
	return out
}

// The end of the output is kept, however much there is.
func TestOutput(t *testing.T) {
	for _, size := range []int{0, 1, 100, outputMax - 1, outputMax, outputMax + 1, 3 * outputMax} {
		for _, portion := range []int{1, 7, 1000, 2 * outputMax} {
			var text strings.Builder
			for i := 0; text.Len() < size; i++ {
				fmt.Fprintf(&text, "%d ", i)
			}
			var o output
			all := []byte(text.String())
			for rest := all; len(rest) > 0; {
				n := min(portion, len(rest))
				o.Write(rest[:n])
				rest = rest[n:]
			}
			if want := all[max(0, len(all)-outputMax):]; !bytes.Equal(o.tail, want) {
				t.Fatalf("%d octets in portions of %d: kept %d octets", size, portion, len(o.tail))
			}
		}
	}
	for text, want := range map[string]string{"": "", "a\nb\n": "b", "a\r\n\r\n \n": "a", "\n\n": "", "x\t y": "x  y"} {
		var o output
		o.Write([]byte(text))
		if got := o.lastLine(); got != want {
			t.Errorf("%q: last line %q, want %q", text, got, want)
		}
	}
}
