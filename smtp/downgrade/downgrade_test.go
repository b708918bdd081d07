package downgrade

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/quotedprintable"
	"slices"
	"strings"
	"testing"

	gomessage "github.com/emersion/go-message"
)

// scan makes a plan of a message that comes in pieces of a size.
func scan(text string, size int) Plan {
	var s Scanner
	for len(text) > 0 {
		n := min(size, len(text))
		s.Scan([]byte(text[:n]))
		text = text[n:]
	}
	return s.Plan()
}

func convert(plan Plan, text string, size int) string {
	c := NewConverter(plan)
	var out []byte
	for len(text) > 0 {
		n := min(size, len(text))
		out = c.Append(out, []byte(text[:n]))
		out = c.Append(out, nil) // a piece may be empty
		text = text[n:]
	}
	return string(c.End(out))
}

func meter(text string, size int) *Meter {
	var m Meter
	for p := range slices.Chunk([]byte(text), size) {
		m.Scan(p)
	}
	return &m
}

// compareMeter holds a Meter, given pieces of a size, against a Scanner and a Converter.
func compareMeter(t *testing.T, text string, size int) {
	t.Helper()
	m := meter(text, size)
	if plan := scan(text, size); plan.EightBit != m.EightBit {
		t.Errorf("a Meter finds octets above 127: %v, a Scanner: %v", m.EightBit, plan.EightBit)
	}
	if folded := convert(Plan{}, text, size); m.Folded() != int64(len(folded)) || m.Folded() > FoldedMax(int64(len(text))) {
		t.Errorf("a Meter counts %d octets, a Converter makes %d of %q", m.Folded(), len(folded), text)
	}
}

// crlf writes a message down in lines that end in LF.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

var cases = []struct{ name, in, out string }{
	{"declared",
		"MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\nSubject: x\n\nIn the Café = \n",
		"MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nSubject: x\nContent-Transfer-Encoding: quoted-printable\n\nIn the Caf=C3=A9 =3D=20\n"},
	{"undeclared, without MIME",
		"Subject: x\n\nCafé\n",
		"Subject: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\nCaf=C3=A9\n"},
	{"undeclared, with a type",
		"MIME-Version: 1.0\nContent-Type: text/html;\n charset=iso-8859-1\n\nCaf\xe9\n",
		"MIME-Version: 1.0\nContent-Type: text/html;\n charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nCaf=E9\n"},
	{"called 7bit",
		"mime-version: 1.0\nCONTENT-TRANSFER-ENCODING:\n 7bit\nX: y\n\n\xe9\t\n",
		"mime-version: 1.0\nX: y\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=E9=09\n"},
	{"called 8bit and is not",
		"MIME-Version: 1.0\nContent-Transfer-Encoding: 8BIT\n\nplain = text \n",
		"MIME-Version: 1.0\nContent-Transfer-Encoding: 7bit\n\nplain = text \n"},
	{"encoded already",
		"MIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9 and \xc3\xa9\n",
		"MIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9 and \xc3\xa9\n"},
	{"header only", "Subject: Café\n\nASCII\n", "Subject: Café\n\nASCII\n"},
	{"multipart",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"a b\"\nContent-Transfer-Encoding: 8bit\n\npreamble é\n--a b\n\nno header é\n--a b  \nContent-Type: application/x-y\n\nASCII\n--a bc\n--a b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\né\n--a b--\nepilogue é\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"a b\"\nContent-Transfer-Encoding: 7bit\n\npreamble é\n--a b\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\nno header =C3=A9\n--a b  \nContent-Type: application/x-y\n\nASCII\n--a bc\n--a b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--a b--\nepilogue é\n"},
	{"signed, with a nested multipart that is not closed",
		"MIME-Version: 1.0\nContent-Type: multipart/signed; boundary=o; protocol=\"p/q\"\n\n--o\nContent-Type: multipart/alternative; boundary=i\n\n--i\nContent-Type: text/plain\n\né\n--o\nContent-Type: application/pgp-signature\n\nsig\n--o--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/signed; boundary=o; protocol=\"p/q\"\n\n--o\nContent-Type: multipart/alternative; boundary=i\n\n--i\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--o\nContent-Type: application/pgp-signature\n\nsig\n--o--\n"},
	{"message within the message",
		"MIME-Version: 1.0\nContent-Type: message/rfc822\nContent-Transfer-Encoding: 8bit\n\nSubject: é\n\né\n",
		"MIME-Version: 1.0\nContent-Type: message/rfc822\nContent-Transfer-Encoding: 7bit\n\nSubject: é\nMIME-Version: 1.0\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n"},
	{"digest",
		"MIME-Version: 1.0\nContent-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: x\nMIME-Version: 1.0\n\né\n--d\nContent-Type: text/plain\n\né\n--d--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--d\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--d--\n"},
	{"part of a message, said to need 8BITMIME",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/partial; id=x; number=2\nContent-Transfer-Encoding: 8bit\n\ne\n--b\n\né\n--b--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/partial; id=x; number=2\nContent-Transfer-Encoding: 7bit\n\ne\n--b\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--b--\n"},
	{"broken header", "Subject: x\nno field é\nmore\n",
		"Subject: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\nno field =C3=A9\nmore\n"},
	{"part without an empty line",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: 8bit\n--b\n\né\n--b--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: 7bit\n\n--b\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--b--\n"},
	{"multipart without a boundary", "Content-Type: multipart/mixed\n\né\n", "Content-Type: multipart/mixed\n\né\n"},
	{"type that breaks the rules",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b;;=\n\n--b\n\né\n--b--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b;;=\n\n--b\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9\n--b--\n"},
	{"empty", "", ""},
	{"no body", "Content-Transfer-Encoding: 8bit\n", "Content-Transfer-Encoding: 7bit\n"},
	{"no body, nor an end of the last line", "Content-Transfer-Encoding: 8bit\nSubject: x", "Subject: x\nContent-Transfer-Encoding: 7bit\n"},
	{"encoded lines are folded", "MIME-Version: 1.0\nContent-Type: text/plain\n\n" + strings.Repeat("é", 14) + "\n",
		"MIME-Version: 1.0\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n" + strings.Repeat("=C3=A9", 12) + "=C3=\n=A9=C3=A9\n"},
	{"long lines", "X: " + strings.Repeat("a", 995) + "\nY: " + strings.Repeat("b", 996) + "\n\n" + strings.Repeat("c", 998+997+1) + "\n",
		"X: " + strings.Repeat("a", 995) + "\nY: " + strings.Repeat("b", 995) + "\n b\n\n" + strings.Repeat("c", 998) + "\n " + strings.Repeat("c", 997) + "\n c\n"},
}

func TestConvert(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, out := crlf(c.in), crlf(c.out)
			for _, size := range []int{len(in) + 1, 1, 7} {
				if got := convert(scan(in, size), in, size); got != out {
					t.Errorf("pieces of %d octets: got\n%q\nwant\n%q", size, got, out)
				}
			}
			compareMeter(t, in, 5)
		})
	}
}

// An independent reader finds the same text in what was converted.
func TestOthersRead(t *testing.T) {
	text := "In the Café, trailing \r\n=20 " + strings.Repeat("Füße ", 100) + "\r\n.\r\nFrom here\r\n"
	in := crlf("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n") + text + "\r\n--b--\r\n"
	e, err := gomessage.Read(strings.NewReader(convert(scan(in, 100), in, 100)))
	if err != nil {
		t.Fatal(err)
	}
	part, err := e.MultipartReader().NextPart()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(part.Body); err != nil || string(got) != text {
		t.Errorf("got %q, %v, want %q", got, err, text)
	}
}

// Neither depth nor number of parts grows what is kept, and what cannot be followed
// is said to be complex and left alone, as is what must not be encoded.
func TestComplex(t *testing.T) {
	deep := strings.Repeat("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n", depthMax+5) + "\r\né\r\n"
	many := "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\né\r\n", partsMax+5)
	part := "Content-Type: Message/Partial; id=x; number=2\r\n\r\né\r\n"
	within := "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" + part + "--b\r\n\r\né\r\n--b--\r\n"
	for _, text := range []string{deep, many, part, within} {
		plan := scan(text, 1000)
		if !plan.Complex || !plan.EightBit {
			t.Errorf("the plan is complex: %v", plan.Complex)
		}
		if convert(plan, text, 1000) != text {
			t.Error("it is changed all the same")
		}
	}
}

// bodies returns the body of each part that is a leaf, decoded if it is
// quoted-printable.
func bodies(t *testing.T, text string) (list []string) {
	t.Helper()
	var m parser
	var lines splitter
	header, open := "\n", false
	var decode []bool
	take := func(f fragment) {
		was := m.state
		e := m.take(f)
		if was == atHeader && e&headerEnds == 0 {
			header += string(f.octets)
			return
		}
		if e&headerEnds != 0 {
			open = m.last.kind == leaf
			quoted := strings.Contains(header, "\nContent-Transfer-Encoding: quoted-printable\r\n")
			header = "\n"
			if open {
				list, decode = append(list, ""), append(decode, quoted && m.last.encoding == encoded)
			}
		}
		if e&boundaryLine != 0 || e&partBegins != 0 {
			open = false
		}
		if open && (e&headerEnds == 0 || e&headerBroken != 0) {
			list[len(list)-1] += string(f.octets)
		}
	}
	lines.split([]byte(text), take)
	lines.end(take)
	for i, d := range decode {
		if body, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(list[i]))); d && err == nil {
			list[i] = string(body)
		}
	}
	return list
}

// FuzzConvert: pieces make no difference; nothing that a decoder would see is lost;
// no part that could be encoded has octets above 127 any more; a second conversion
// has nothing to do; lines are short.
func FuzzConvert(f *testing.F) {
	for _, c := range cases {
		f.Add(crlf(c.in), uint64(1))
	}
	f.Add(strings.Repeat("a", 2993)+"\r\r\n"+strings.Repeat("b", 1995)+"\r", uint64(2))
	f.Add("Content-Type:\xffBoundary=", uint64(1)) // strings.ToLower makes it longer
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 8<<10 {
			return
		}
		checkConverted(t, text, seed)
	})
}

// checkConverted checks the conversion of a message.
func checkConverted(t *testing.T, text string, seed uint64) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 1))
	plan := scan(text, len(text)+1)
	size := 1 + dice.IntN(len(text)+1)
	out := convert(plan, text, len(text)+1)
	if again := convert(scan(text, size), text, size); again != out {
		t.Fatalf("pieces of %d make a difference:\n%q\n%q", size, out, again)
	}
	compareMeter(t, text, size)
	if meter(out, len(out)+1).Folded() != int64(len(out)) {
		t.Fatalf("a line is too long: %q", out)
	}
	if plan.Complex || meter(text, size).Folded() != int64(len(text)) {
		return
	}
	next := scan(out, len(out)+1)
	for i, change := range next.parts {
		if change != keep {
			t.Fatalf("part %d is left to be changed:\n%q\n%q", i, text, out)
		}
	}
	before, after := bodies(t, text), bodies(t, out)
	if len(before) != len(after) {
		t.Fatalf("%d parts have become %d:\n%q\n%q", len(before), len(after), text, out)
	}
	for i := range before {
		if before[i] != after[i] {
			t.Fatalf("part %d was\n%q\nand is\n%q\nof\n%q\n%q", i, before[i], after[i], text, out)
		}
	}
	if len(plan.parts) > 0 && !bytes.Contains([]byte(out), []byte("\n")) && strings.Contains(text, "\n") {
		t.Fatal("lines were lost")
	}
}

// Messages put together of all that matters to a parser, in any order.
func TestRandomMessages(t *testing.T) {
	words := []string{
		"\r\n", "\r\n", "\r\n", "\r", "\n", "é", "a", " ", "\t", "=", "\x7f", ".", ":", "From x\r\n", "Subject: x\r\n", " folded\r\n", "MIME-Version: 1.0\r\n",
		"\r\n--b\r\n", "\r\n--b\r\n", "\r\n--c\r\n", "\r\n--b--\r\n", "\r\n--c-- \r\n", "--b", "--bc\r\n",
		"Content-Type: multipart/mixed; boundary=b\r\n", "content-type: multipart/digest;\r\n boundary=c\r\n", "Content-Type: message/rfc822\r\n", "Content-Type: text/plain\r\n",
		"Content-Transfer-Encoding: 8bit\r\n", "Content-Transfer-Encoding: binary \r\n", "content-transfer-encoding:\r\n base64\r\n", "Content-Transfer-Encoding: 7bit\r\n",
		strings.Repeat("y", 70), strings.Repeat("z", 997), strings.Repeat("é", 2100),
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for n := range uint64(3000) {
		var b strings.Builder
		for range 1 + dice.IntN(30) {
			b.WriteString(words[dice.IntN(len(words))])
		}
		checkConverted(t, b.String(), n)
		if got, want := convert(Plan{}, b.String(), 1+dice.IntN(5)), fold(b.String()); got != want {
			t.Fatalf("%q is folded to\n%q\nwant\n%q", b.String(), got, want)
		}
	}
}

// fold breaks long lines in the obvious way.
func fold(text string) string {
	lines := strings.Split(text, "\r\n")
	for i, line := range lines {
		folded := ""
		for most := LineLimit; len(line) > most; most = LineLimit - 1 {
			folded, line = folded+line[:most]+"\r\n ", line[most:]
		}
		lines[i] = folded + line
	}
	return strings.Join(lines, "\r\n")
}

// Every octet, at every column at which a line may have to be broken, is encoded as
// RFC 2045 6.7 has it.
func TestEveryOctet(t *testing.T) {
	const header = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
	var in, want strings.Builder
	for c := range 256 {
		for _, n := range []int{0, 1, 71, 72, 73, 74, 75, 76, 150} {
			if c == '\r' || c == '\n' {
				continue
			}
			for _, line := range []string{string([]byte{byte(c)}), string([]byte{byte(c), 'x'}), "\xff" + string([]byte{byte(c), byte(c)})} {
				line = strings.Repeat("a", n) + line
				in.WriteString(line + "\r\n")
				want.WriteString(quote(line) + "\r\n")
			}
		}
	}
	text := header + "\r\n" + in.String()
	got := convert(scan(text, 100), text, 7)
	if want := header + "Content-Transfer-Encoding: quoted-printable\r\n\r\n" + want.String(); got != want {
		for i, line := range strings.SplitAfter(want, "\r\n") {
			if rest, ok := strings.CutPrefix(got, line); ok {
				got = rest
				continue
			}
			t.Fatalf("line %d: got %.100q, want %q", i, got, line)
		}
	}
}

// quote encodes a line in the obvious way.
func quote(line string) (out string) {
	column := 0
	for i := range len(line) {
		c := line[i]
		token := string(line[i])
		if blank := c == ' ' || c == '\t'; blank && i == len(line)-1 || !blank && (c <= ' ' || c >= 0x7f || c == '=') {
			token = fmt.Sprintf("=%02X", c)
		}
		if column += len(token); column > 75 {
			out, column = out+"=\r\n", len(token)
		}
		out += token
	}
	return out
}

func BenchmarkMeter(b *testing.B) {
	text := []byte("Subject: x\r\n\r\n" + strings.Repeat("The quick brown fox jumps over the lazy dog, as it always does.\r\n", 63))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var m Meter
		m.Scan(text)
	}
}
