package sasl

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/xdg-go/stringprep"
)

// NameMax is the length of the longest name of a user, PasswordMax that of the longest
// password, in bytes.
const (
	NameMax     = 128
	PasswordMax = 1024
)

// errForm never says what is wrong with which character: it may be one of a password.
var errForm = errors.New("it has characters that SASLprep (RFC 4013) forbids, such as control characters, or is too long or empty")

// Prepare returns a password in the form in which it is compared. The error does not
// contain any of it.
func Prepare(password string) (string, error) {
	if len(password) > PasswordMax || !utf8.ValidString(password) {
		return "", errForm
	}
	p, err := stringprep.SASLprep.Prepare(password)
	if err != nil || p == "" {
		return "", errForm
	}
	return p, nil
}

// PrepareName returns a user's name in the form in which it is compared and shown, with
// small letters. It has no spaces.
func PrepareName(name string) (string, error) {
	if len(name) > NameMax || !utf8.ValidString(name) {
		return "", errForm
	}
	p, err := stringprep.SASLprep.Prepare(name)
	if err != nil || p == "" {
		return "", errForm
	}
	p = strings.ToLower(p)
	if len(p) > NameMax {
		return "", errForm
	}
	if strings.ContainsAny(p, " \t") {
		return "", errors.New("it has a space")
	}
	return p, nil
}
