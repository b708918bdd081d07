package pipe

import "fmt"

// Flags are options of how a message is given to a program: the flags of Postfix's
// pipe(8), by the same letters.
type Flags uint16

const (
	FlagBlank       Flags = 1 << iota // B: an empty line follows the message
	FlagDeliveredTo                   // D: Delivered-To: with the recipient; a message that has one already is looping
	FlagFrom                          // F: the line "From sender date" precedes the message (mbox)
	FlagOriginalTo                    // O: X-Original-To: with the recipient as it was before aliases, if that is known
	FlagReturnPath                    // R: Return-Path: with the sender
	FlagFinal                         // X: what the program takes is delivered, not relayed
	FlagFoldDomain                    // h: domains in arguments are in lower case
	FlagQuote                         // q: local parts in arguments are quoted where RFC 5322 demands it
	FlagFoldLocal                     // u: recipients' local parts in arguments are in lower case
	FlagDot                           // .: lines that begin with a dot get another, and a line with a dot ends the message
	FlagQuoteFrom                     // >: lines that begin with "From " get a ">" in front
)

// flagLetters are the letters of the flags, in the order of their bits.
const flagLetters = "BDFORXhqu.>"

// ParseFlags parses the letters of flags, in any order.
func ParseFlags(letters string) (f Flags, err error) {
	for _, letter := range letters {
		bit := Flags(0)
		for i, l := range flagLetters {
			if l == letter {
				bit = 1 << i
			}
		}
		if bit == 0 {
			return 0, fmt.Errorf("%q is not a flag", string(letter))
		}
		f |= bit
	}
	return f, nil
}

// String returns the letters.
func (f Flags) String() string {
	var letters []byte
	for i := range len(flagLetters) {
		if f&(1<<i) != 0 {
			letters = append(letters, flagLetters[i])
		}
	}
	return string(letters)
}

// Single reports whether the flags allow only one recipient in a delivery.
func (f Flags) Single() bool { return f&(FlagDeliveredTo|FlagOriginalTo) != 0 }
