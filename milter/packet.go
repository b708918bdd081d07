package milter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Commands to a milter.
const (
	cmdAbort     = 'A'
	cmdBody      = 'B'
	cmdConnect   = 'C'
	cmdMacro     = 'D'
	cmdEnd       = 'E' // of the body
	cmdHelo      = 'H'
	cmdHeader    = 'L'
	cmdMail      = 'M'
	cmdEOH       = 'N'
	cmdNegotiate = 'O'
	cmdQuit      = 'Q'
	cmdRcpt      = 'R'
	cmdData      = 'T'
)

// Answers of a milter. From answerAddRcpt on they are changes, which only the end of the body
// permits.
const (
	answerAccept    = 'a'
	answerContinue  = 'c'
	answerDiscard   = 'd'
	answerConnFail  = 'f'
	answerProgress  = 'p'
	answerReject    = 'r'
	answerSkip      = 's'
	answerTempfail  = 't'
	answerReplyCode = 'y'
	answerShutdown  = '4'

	answerAddRcpt      = '+'
	answerDelRcpt      = '-'
	answerAddRcptPar   = '2'
	answerReplaceBody  = 'b'
	answerChangeFrom   = 'e'
	answerAddHeader    = 'h'
	answerInsertHeader = 'i'
	answerChangeHeader = 'm'
	answerQuarantine   = 'q'
)

// answerMax is the size of the largest packet that is read, except for those of a new body, which
// are passed on in pieces.
const answerMax = 256 << 10

// chunkMax is the size of the largest piece of a body that every milter takes.
const chunkMax = 65535

// signOfLife is the packet by which a milter says that it is still at work.
const signOfLife = "\x00\x00\x00\x01p"

// errProtocol means that what a milter has sent is not an answer.
var errProtocol = errors.New("it does not speak the milter protocol")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errProtocol}, args...)...)
}

// beginPacket appends the head of a packet whose size endPacket sets.
func beginPacket(b []byte, command byte) (packet []byte, at int) {
	return append(b, 0, 0, 0, 0, command), len(b)
}

func endPacket(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// appendText appends a text of the protocol, which ends with a NUL and so can have none.
func appendText(b []byte, text string) []byte {
	for i := strings.IndexByte(text, 0); i >= 0; i = strings.IndexByte(text, 0) {
		b = append(b, text[:i]...)
		text = text[i+1:]
	}
	return append(append(b, text...), 0)
}

// readHead reads the head of a packet. size is that of what follows the answer's code.
func readHead(in io.Reader) (code byte, size int, err error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errClosed
		}
		return 0, 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > 1<<30 {
		return 0, 0, broken("a packet of %d bytes", n)
	}
	return head[4], int(n) - 1, nil
}

// readRest reads what follows the head. Memory grows with what has come, not with what was
// announced.
func readRest(in io.Reader, code byte, size int) ([]byte, error) {
	if size > answerMax {
		return nil, broken("an answer %q of %d bytes", code, size)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, in, int64(size)); err != nil {
		return nil, fmt.Errorf("in the middle of an answer: %w", err)
	}
	return b.Bytes(), nil
}

// An answer is a packet of a milter, with what follows its code.
type answer struct {
	code byte
	data []byte
}

// texts returns the texts of an answer, at least least of them, all of which end with a NUL, and
// none besides.
func (a *answer) texts(least, most int) ([]string, error) {
	return texts(a.code, a.data, least, most)
}

func texts(code byte, data []byte, least, most int) ([]string, error) {
	rest, ended := bytes.CutSuffix(data, []byte{0})
	if !ended {
		return nil, broken("an answer %q without an end", code)
	}
	list := strings.Split(string(rest), "\x00")
	if len(list) < least || len(list) > most {
		return nil, broken("an answer %q with %d texts", code, len(list))
	}
	return list, nil
}

// numbered returns the number at the beginning of an answer, and its texts.
func (a *answer) numbered(count int) (uint32, []string, error) {
	if len(a.data) < 4 {
		return 0, nil, broken("an answer %q of %d bytes", a.code, len(a.data))
	}
	list, err := texts(a.code, a.data[4:], count, count)
	return binary.BigEndian.Uint32(a.data), list, err
}
