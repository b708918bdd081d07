package flow

import (
	"strings"

	"github.com/posthaste-mta/posthaste/internal/ascii"
	"github.com/posthaste-mta/posthaste/mail"
)

// null is the flow of mail from the null sender: reports of other servers.
const null = "<>"

// wild stands for a part of an address that differs between the messages of one flow.
const wild = '*'

// Sender returns the flow of an envelope sender: the address in lower case, without
// what programs add to it to distinguish the messages of one mailing. These forms are
// known, and may be nested:
//
//	prvs=TAG=user, btv1==TAG==user         user (BATV)
//	msprvs1=TAG=user                       user
//	SRS0=HASH=TIME=DOMAIN=user             user@DOMAIN (SRS)
//	SRS1=HASH=HOST==HASH=TIME=DOMAIN=user  user@DOMAIN
//	list+anything                          list (VERP, mailman, plus addresses)
//	list-return-12-user=domain             list-return (VERP of qmail, ezmlm; also bounces, owner …)
//	list-user=domain                       list
//	owner-list-user=domain                 owner-list
//	bounces-user+anything=domain           bounces (VERP again, to an address with a +)
//	user=domain                            *
//	bounce-mc.us12_12345678.98-abcdef1234  bounce-mc.us12_* (numbers and IDs)
//
// The last form replaces three or more digits, numbers between delimiters, UUIDs, and
// words that look random: eight or more hex digits, or sixteen or more letters and
// digits. What is similar becomes equal too often rather than too rarely: flows that
// share a turn lose little, while a mailing that counts as thousands of flows would
// take the turns of all others.
//
// Of a local part only the first 128 bytes count. The result is no longer than
// mail.FlowMax, and Sender of it is the same again. For an address that has none of
// this it is the address itself, without an allocation.
func Sender(address mail.Address) string { return senderOf(address, false) }

// senderOf is Sender. dash is Config.Dash.
func senderOf(address mail.Address, dash bool) string {
	if address == "" {
		return null
	}
	text := ascii.Lower(printable(string(address)))
	for { // each round makes the text shorter, or leaves fewer digits in it
		next := reduce(text, dash)
		if next == text {
			return bound(text, mail.FlowMax)
		}
		text = next
	}
}

// localMax is the number of bytes of a local part that count. They keep the "@" within
// the bounds of a flow.
const localMax = 128

// Domain returns the domain of a sender in lower case, or as Sender does if there is
// none.
func Domain(address mail.Address) string {
	domain := address.Domain()
	if domain == "" {
		return Sender(address)
	}
	return bound(ascii.Lower(printable(domain)), mail.FlowMax)
}

// reduce resolves the outermost form of an address in lower case.
func reduce(text string, dash bool) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		at = len(text)
	}
	local, domain := text[:at], text[at:]
	if len(local) > localMax {
		return cut(local, localMax) + domain
	}
	if local == "" || local[0] == '"' {
		return text // programs do not make quoted addresses
	}
	if inner, ok := batv(local); ok {
		return inner + domain
	}
	if user, host, ok := srs(local); ok {
		return user + "@" + host
	}
	short := local
	plus, equals := strings.IndexByte(local, '+'), strings.IndexByte(local, '=')
	switch {
	case equals >= 0 && (plus <= 0 || equals < plus):
		short = verp(local[:equals])
	case equals > plus && plus > 0:
		short = beforePlus(local[:plus], dash)
	case plus > 0:
		short = local[:plus]
	}
	if short = numbers(short); short == local {
		return text
	}
	return short + domain
}

// batv returns the address that a tag for the detection of false bounces was put in
// front of: prvs=TAG=user (draft-levine-smtp-batv), and its relatives msprvs1=TAG=user
// and btv1==TAG==user.
func batv(local string) (inner string, ok bool) {
	if rest, found := strings.CutPrefix(local, "btv1=="); found {
		_, inner, ok = strings.Cut(rest, "==")
		return inner, ok && inner != ""
	}
	name, rest, _ := strings.Cut(local, "=")
	name = strings.TrimRight(name, "0123456789")
	if name != "prvs" && name != "msprvs" {
		return "", false
	}
	_, inner, ok = strings.Cut(rest, "=")
	return inner, ok && inner != ""
}

// srs returns the sender whose mail was forwarded under SRS0 or SRS1.
func srs(local string) (user, domain string, ok bool) {
	if len(local) < 5 || local[:3] != "srs" || local[3] != '0' && local[3] != '1' || strings.IndexByte("=+-", local[4]) < 0 {
		return "", "", false
	}
	rest := local[5:]
	if local[3] == '1' { // the first forwarder, and what it wrote, which begins with its separator
		var found bool
		if _, rest, found = strings.Cut(rest, "="); !found {
			return "", "", false
		}
		i := strings.IndexByte(rest, '=')
		if i < 0 || i+1 >= len(rest) || strings.IndexByte("=+-", rest[i+1]) < 0 {
			return "", "", false
		}
		rest = rest[i+2:]
	}
	parts := strings.SplitN(rest, "=", 4) // hash, time, domain, user
	if len(parts) < 4 || parts[2] == "" || parts[3] == "" || strings.IndexByte(parts[2], '@') >= 0 {
		return "", "", false
	}
	return parts[3], parts[2], true
}

// verp returns what precedes the recipient in the sender of a mailing that has a
// sender for each recipient. It begins after a word that list software puts there, or
// else after the first delimiter, because the recipient may have delimiters, too.
func verp(prefix string) string {
	if end, found := listWord(prefix); found {
		return prefix[:end]
	}
	if end := wordEnd(prefix, 0); 0 < end && end < len(prefix) {
		return prefix[:end]
	}
	return string(wild)
}

// beforePlus returns the sender in what precedes a "+" behind which there is a "=". That is all of
// it if the recipient follows the "+", and less if the recipient has the "+" and follows a "-":
// bounces-jane+news=example.net. Where no word of list software shows which, dash decides; without
// it the "+" is taken for the delimiter, as it is Postfix's.
func beforePlus(prefix string, dash bool) string {
	switch end, found := listWord(prefix); {
	case found && end < len(prefix) && prefix[end] == '-':
		return prefix[:end]
	case dash && !found && strings.IndexByte(prefix, '-') > 0:
		return verp(prefix)
	}
	return prefix
}

// listWord returns the end of the first word that list software puts into senders. The name of the
// list precedes it, or follows "owner" at the beginning.
func listWord(local string) (end int, found bool) {
	for i := 0; i < len(local); i = end + 1 {
		end = wordEnd(local, i)
		switch local[i:end] {
		case "owner":
			if i == 0 && end < len(local) {
				end = wordEnd(local, end+1)
			}
			return end, true
		case "return", "returns", "bounce", "bounces", "bouncing", "error", "errors", "request", "verp", "fbl", "delivery":
			return end, true
		}
	}
	return 0, false
}

// delimits reports whether an octet separates words of a local part.
func delimits(c byte) bool {
	switch c {
	case '-', '.', '_', '/', '#', '~', '!', '$', '%', '&', '\'', '^', '`', '{', '|', '}', '?', ',', ':', ';':
		return true
	}
	return false
}

// wordEnd returns the end of the word that begins at i.
func wordEnd(local string, i int) int {
	for i < len(local) && !delimits(local[i]) && local[i] != wild {
		i++
	}
	return i
}

// numbers replaces what numbers and random words there are in a local part.
func numbers(local string) string {
	if !strings.ContainsAny(local, "0123456789*") {
		return local
	}
	var buf [localMax]byte
	out := buf[:0]
	several := wordEnd(local, 0) < len(local)
	for i := 0; i < len(local); {
		if uuid(local[i:]) {
			out = appendWild(out)
			i += uuidLength
			continue
		}
		end := wordEnd(local, i)
		out = appendWord(out, local[i:end], several)
		if i = end; i < len(local) {
			if local[i] == wild {
				out = appendWild(out)
			} else {
				out = append(out, local[i])
			}
			i++
		}
	}
	if string(out) == local {
		return local
	}
	return string(out)
}

// appendWild appends a star, unless only delimiters separate it from the one before,
// in which case it removes these.
func appendWild(out []byte) []byte {
	i := len(out)
	for i > 0 && delimits(out[i-1]) {
		i--
	}
	if i > 0 && out[i-1] == wild {
		return out[:i]
	}
	return append(out, wild)
}

// appendWord appends a word, or a star if it looks random.
func appendWord(out []byte, word string, several bool) []byte {
	digits, hex := 0, 0
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'f':
			hex++
		}
	}
	switch n := len(word); {
	case n > 0 && digits == n && several, n >= 8 && digits >= 2 && digits+hex == n, n >= 16 && digits >= 2:
		return appendWild(out)
	}
	for i := 0; i < len(word); {
		n := 0
		for i+n < len(word) && '0' <= word[i+n] && word[i+n] <= '9' {
			n++
		}
		if n >= 3 {
			out = appendWild(out)
		} else {
			n = max(n, 1)
			out = append(out, word[i:i+n]...)
		}
		i += n
	}
	return out
}

const uuidLength = 36

// uuid reports whether text begins with a UUID.
func uuid(text string) bool {
	if len(text) < uuidLength {
		return false
	}
	for i := range uuidLength {
		c := text[i]
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
