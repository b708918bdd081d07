package submit

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A maildrop is a directory in which messages wait for a server that is not running. Each is
// a file: lines with the envelope, an empty line, the content, and a last line with a checksum
// of all before it, without which the file is not complete. A user who can write to the
// directory may not be able to list it, and so cannot sync it either.

const (
	dropMagic  = "posthaste-drop 1"
	dropPrefix = "drop-" // of names
	// dropLineMax is the length of the longest line of an envelope.
	dropLineMax = 4096
)

// ErrIncomplete means that a file in a maildrop is not a whole message: it is being written,
// its writer has died, or it is something else.
var ErrIncomplete = errors.New("not a complete message")

// Leave puts a message into a maildrop. When it returns without an error, the message is on
// disk. An error leaves nothing behind.
func Leave(dir string, s Sending) (err error) {
	name := filepath.Join(dir, dropPrefix+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	// The directory gives files its group, which is one of the server's.
	if err := f.Chmod(0o640); err != nil {
		return err
	}
	if err := writeDrop(f, s); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return syncDrop(f)
}

// CanLeave returns why this user cannot leave messages in a maildrop; nil if he can.
func CanLeave(dir string) error {
	name := filepath.Join(dir, dropPrefix+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(name))
}

// writeDrop writes the text of a file.
func writeDrop(f io.Writer, s Sending) error {
	sum := newSum()
	out := bufio.NewWriterSize(io.MultiWriter(f, sum), 64<<10)
	m := s.Message
	fmt.Fprintf(out, "%s\nsender %s\nnotify %d\nret %d\nenvid %s\nutf8 %t\nsize %d\n", dropMagic, s.Sender, s.Notify, s.Ret, smtp.EncodeXtext(s.EnvID), m.utf8Header, m.Size())
	if s.VERP {
		fmt.Fprintf(out, "verp %s\n", s.Delimiters)
	}
	recipients, err := m.recipients.reader()
	if err != nil {
		return err
	}
	for {
		a, ok, err := recipients.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		fmt.Fprintf(out, "to %s\n", a)
	}
	out.WriteByte('\n')
	content, err := m.content.Reader(0)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, content); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\nsum %08x\n", sum.Sum32())
	return err
}

func newSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// Load reads a message from a maildrop. The caller closes its Message. The writer of the
// file may be hostile. The error is ErrIncomplete for anything that Leave would not have
// written, a *Refusal for a content of more than sizeMax bytes, and otherwise one of the
// system's. With a *Refusal there is a message, of which only the beginning was read.
func Load(f io.Reader, sizeMax int64) (_ Sending, err error) {
	sum := newSum()
	in := bufio.NewReaderSize(f, 64<<10)
	l := dropLoader{in: in, sum: sum}
	s, size, err := l.envelope()
	if err != nil {
		return Sending{}, err
	}
	var refused *Refusal
	defer func() {
		if err != nil && refused == nil {
			s.Message.Close()
		}
	}()
	var c composer
	if size > sizeMax {
		err = l.content(&c, min(size, beginningMax))
		s.Message.content, s.Message.eightBit, s.Message.cut = c.content, c.eightBit, true
		if err != nil && !errors.Is(err, ErrIncomplete) {
			return Sending{}, err
		}
		refused = TooLarge(sizeMax)
		return s, refused
	}
	err = l.content(&c, size)
	s.Message.content, s.Message.eightBit = c.content, c.eightBit
	if err != nil {
		return Sending{}, err
	}
	want := fmt.Sprintf("\nsum %08x\n", sum.Sum32())
	last, err := io.ReadAll(io.LimitReader(in, int64(len(want))+1))
	if err != nil {
		return Sending{}, err
	}
	if string(last) != want {
		return Sending{}, ErrIncomplete
	}
	return s, nil
}

// beginningMax is how much of a content that is too large is read: its header, for a report.
const beginningMax = 64 << 10

// A dropLoader reads one file.
type dropLoader struct {
	in  *bufio.Reader
	sum hash.Hash32
}

// line reads a line of the envelope.
func (l *dropLoader) line() (string, error) {
	line, err := l.in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && err != io.EOF {
		return "", err
	}
	if err != nil || len(line) > dropLineMax {
		return "", ErrIncomplete
	}
	l.sum.Write(line)
	text := string(line[:len(line)-1])
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return "", ErrIncomplete // it would be another line for the server
	}
	return text, nil
}

// envelope reads the lines before the content.
func (l *dropLoader) envelope() (s Sending, size int64, err error) {
	s.Message = &Message{recipients: &roster{}}
	defer func() {
		if err != nil {
			s.Message.Close()
		}
	}()
	switch magic, err := l.line(); {
	case err != nil:
		return s, 0, err
	case magic != dropMagic:
		return s, 0, ErrIncomplete
	}
	for {
		line, err := l.line()
		if err != nil {
			return s, 0, err
		}
		if line == "" {
			break
		}
		if err := s.dropLine(line, &size); err != nil {
			return s, 0, err
		}
	}
	if s.Message.recipients.count == 0 || size <= 0 {
		return s, 0, ErrIncomplete
	}
	return s, size, nil
}

// dropLine sets what a line of an envelope says.
func (s *Sending) dropLine(line string, size *int64) error {
	name, value, _ := strings.Cut(line, " ")
	number, err := strconv.ParseInt(value, 10, 64)
	isNumber := err == nil && number >= 0
	ok := true
	switch name {
	case "sender":
		s.Sender = mail.Address(value)
		ok = !strings.ContainsAny(value, "<>")
	case "notify":
		s.Notify = mail.Notify(number)
		ok = isNumber && number <= int64(mail.NotifyNever|mail.NotifySuccess|mail.NotifyFailure|mail.NotifyDelay)
	case "ret":
		s.Ret = mail.Ret(number)
		ok = isNumber && number <= int64(mail.RetHeaders)
	case "envid":
		s.EnvID, ok = smtp.DecodeXtext(value)
	case "verp": // in files of a message that asks for it alone, so that earlier versions know the others
		s.VERP, s.Delimiters = true, value
		ok = value == "" || validDelimiters(value)
	case "utf8":
		s.Message.utf8Header = value == "true"
	case "size":
		*size, ok = number, isNumber
	case "to":
		if ok = value != "" && !strings.ContainsAny(value, "<>"); ok {
			return s.Message.recipients.add(mail.Address(value))
		}
	default:
		ok = false
	}
	if !ok {
		return ErrIncomplete
	}
	return nil
}

// validDelimiters reports whether a text is two delimiters of VERP. Which of them may be used is for
// the server to say.
func validDelimiters(text string) bool {
	_, ok := smtp.ParseVERP(text, smtp.VERPPossible)
	return ok
}

// content reads the content.
func (l *dropLoader) content(c *composer, size int64) error {
	buf := make([]byte, 32<<10)
	for size > 0 {
		n, err := io.ReadFull(l.in, buf[:min(size, int64(len(buf)))])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return ErrIncomplete
		}
		if err != nil {
			return err
		}
		l.sum.Write(buf[:n])
		c.eightBit = c.eightBit || !isASCII(buf[:n])
		if err := c.write(buf[:n]); err != nil {
			return err
		}
		size -= int64(n)
	}
	return c.write(c.newline.End(nil))
}
