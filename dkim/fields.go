package dkim

import "github.com/posthaste-mta/posthaste/internal/ascii"

// A sealing is whether a name is listed in the signature once more than there are fields
// of this name, so that adding one on the way voids the signature (RFC 6376 8.15).
type sealing uint8

const (
	sealNever   sealing = iota
	sealPresent         // if there is such a field
	sealAlways          // also if there is none
)

// A signedField is a header field that is signed.
type signedField struct {
	name string // as in the h= tag
	seal sealing
}

// signedFields are the fields that are signed, in the order of the h= tag. They are those
// of RFC 6376 5.4.1, those of MIME, without which the body means something else, the two
// that the large receivers ask for (List-Unsubscribe-Post, RFC 8058 4, and Feedback-ID),
// Sender, Message-ID and Autocrypt. Trace fields and Return-Path are not, as 5.4.1 says: they
// change on the way.
//
// What a reader sees is sealed even if it is missing. What a later host may have to add, or
// a mailing list does, is sealed only if it is there, or not at all.
var signedFields = [...]signedField{
	{"From", sealAlways}, // the first one: see fromField
	{"Reply-To", sealAlways},
	{"Subject", sealAlways},
	{"To", sealAlways},
	{"Cc", sealAlways},
	{"Date", sealPresent},
	{"Message-ID", sealPresent},
	{"Sender", sealPresent},
	{"MIME-Version", sealPresent},
	{"Content-Type", sealPresent},
	{"Content-Transfer-Encoding", sealPresent},
	{"In-Reply-To", sealPresent},
	{"References", sealPresent},
	{"List-Unsubscribe", sealPresent},
	{"List-Unsubscribe-Post", sealPresent},
	{"Feedback-ID", sealPresent},
	{"Autocrypt", sealPresent},
	{"List-Id", sealNever},
	{"List-Help", sealNever},
	{"List-Subscribe", sealNever},
	{"List-Post", sealNever},
	{"List-Owner", sealNever},
	{"List-Archive", sealNever},
	{"Resent-Date", sealNever},
	{"Resent-From", sealNever},
	{"Resent-Sender", sealNever},
	{"Resent-To", sealNever},
	{"Resent-Cc", sealNever},
	{"Resent-Message-ID", sealNever},
}

// fromField is the index of From, without which there is no signature.
const fromField = 0

// fieldNameMax is the length of the longest name above.
const fieldNameMax = len("Content-Transfer-Encoding")

// signedFieldOf returns the index of a signed field, -1 if the field is not signed. The
// name is in lower case.
func signedFieldOf(name []byte) int {
	for i := range signedFields {
		if f := signedFields[i].name; len(f) == len(name) && equalLower(f, name) {
			return i
		}
	}
	return -1
}

// equalLower reports whether a name in any case equals one in lower case of the same
// length.
func equalLower(name string, lower []byte) bool {
	for i, c := range lower {
		if ascii.LowerByte(name[i]) != c {
			return false
		}
	}
	return true
}
