package submit

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/spill"
	"github.com/posthaste-mta/posthaste/mail"
)

// repeatMax is the number of recipients remembered so that none is named twice.
// With more the list is one that a program made.
const repeatMax = 10_000

// A roster is a list of recipients in the order in which they were added. The
// zero value is empty.
type roster struct {
	lines    spill.Buffer // one address a line
	count    int
	nonASCII bool
	seen     map[mail.Address]bool
}

func (r *roster) add(address mail.Address) error {
	if r.seen[address] {
		return nil
	}
	if len(r.seen) < repeatMax {
		if r.seen == nil {
			r.seen = map[mail.Address]bool{}
		}
		r.seen[address] = true
	}
	r.count++
	r.nonASCII = r.nonASCII || !isASCII([]byte(address))
	_, err := r.lines.Write(append([]byte(address), '\n'))
	return err
}

// A rosterReader reads a roster from its first recipient on.
type rosterReader struct {
	in   *bufio.Reader
	read int            // lines of it
	back []mail.Address // to be read again, before all else
}

func (r *roster) reader() (*rosterReader, error) {
	in, err := r.lines.Reader(0)
	if err != nil {
		return nil, err
	}
	return &rosterReader{in: bufio.NewReaderSize(in, 64<<10)}, nil
}

// next returns the next recipient; ok is false at the end.
func (r *rosterReader) next() (a mail.Address, ok bool, err error) {
	if len(r.back) > 0 {
		a, r.back = r.back[0], r.back[1:]
		return a, true, nil
	}
	line, err := r.in.ReadSlice('\n')
	if err == io.EOF {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read back the recipients: %w", err)
	}
	r.read++
	return mail.Address(line[:len(line)-1]), true, nil
}

// mark returns the place where the reader is.
func (r *rosterReader) mark() Mark { return Mark{r.read, slices.Clone(r.back)} }

// seek goes from the beginning to a place.
func (r *rosterReader) seek(to Mark) error {
	for r.read < to.read {
		if _, ok, err := r.next(); err != nil || !ok {
			return err
		}
	}
	r.back = slices.Clone(to.again)
	return nil
}

// unread puts recipients back, to be read before what is left.
func (r *rosterReader) unread(addresses ...mail.Address) {
	r.back = append(addresses[:len(addresses):len(addresses)], r.back...)
}

// Unsent yields the recipients behind a mark, or an error if the list cannot be read back.
func (m *Message) Unsent(after Mark) iter.Seq2[mail.Address, error] {
	return func(yield func(mail.Address, error) bool) {
		in, err := m.recipients.reader()
		if err == nil {
			err = in.seek(after)
		}
		for err == nil {
			a, ok, failure := in.next()
			if err = failure; err == nil && (!ok || !yield(a, nil)) {
				return
			}
		}
		yield("", err)
	}
}

// addAll adds another roster's recipients.
func (r *roster) addAll(from *roster) error {
	in, err := from.reader()
	if err != nil {
		return err
	}
	for {
		a, ok, err := in.next()
		if err != nil || !ok {
			return err
		}
		if err := r.add(a); err != nil {
			return err
		}
	}
}
