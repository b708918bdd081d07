package replies

// A vocabulary is all phrases of a Book. They are searched in one pass over a text, which
// looks at every second position only: of three octets there, a table says in which phrases
// they occur, and where in them. Of each phrase two such windows next to each other are in
// the table, so one of them is looked at wherever the phrase is.
type vocabulary struct {
	phrases []string
	numbers map[string]int
	windows []window // the first is none
	// may has a bit for each hash that a window has. It stays in the processor's fastest
	// cache, and spares most positions a second look.
	may   [1 << mayBits / 64]uint64
	first [1 << firstBits]int32 // by some bits of the hash: the index of a window, 0 if there is none
}

// A window is some octets of a phrase.
type window struct {
	octets uint32
	next   int32 // the index of another window with the same bits of the hash, 0 if there is none
	phrase int32 // its number
	offset int32 // of the window in the phrase
}

const (
	windowSize = 3
	// windowStep is the number of positions of which one is looked at. A phrase of
	// WordsMin octets has as many windows.
	windowStep = WordsMin - windowSize + 1
	mayBits    = 16
	firstBits  = 10
)

// A phraseSet is the numbers of phrases.
type phraseSet []uint64

func (s phraseSet) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

func newVocabulary() *vocabulary {
	return &vocabulary{numbers: make(map[string]int), windows: make([]window, 1)}
}

// number returns the number of a phrase, which is at least WordsMin octets long.
func (v *vocabulary) number(text string) int {
	if n, ok := v.numbers[text]; ok {
		return n
	}
	n := len(v.phrases)
	v.numbers[text] = n
	v.phrases = append(v.phrases, text)
	from := rarest(text)
	for offset := from; offset < from+windowStep; offset++ {
		octets := windowOf(text[offset], text[offset+1], text[offset+2])
		h := hashOf(octets)
		v.may[h/64] |= 1 << (h % 64)
		first := &v.first[h%(1<<firstBits)]
		v.windows = append(v.windows, window{octets: octets, next: *first, phrase: int32(n), offset: int32(offset)})
		*first = int32(len(v.windows) - 1)
	}
	return n
}

func windowOf(c0, c1, c2 byte) uint32 { return uint32(c0) | uint32(c1)<<8 | uint32(c2)<<16 }

func hashOf(octets uint32) uint32 { return octets * 2654435761 >> (32 - mayBits) }

// rarest returns where in a phrase the windows begin that are likely to be the rarest in
// texts: the fewer of their octets are spaces and the most frequent letters of English, the
// better. It decides only about speed.
func rarest(text string) (at int) {
	best := -1
	for i := range len(text) - WordsMin + 1 {
		rare := 0
		for _, c := range []byte(text[i : i+WordsMin]) {
			switch c {
			case ' ', 'e', 't', 'a', 'o', 'i', 'n', 's', 'r', 'l', 'd':
			case 'q', 'x', 'z', 'j', 'k', 'v', 'w', 'f', 'y', 'b', 'p':
				rare += 2
			default:
				rare++
			}
		}
		if rare > best {
			best, at = rare, i
		}
	}
	return at
}

// find adds to found, which has a bit for each phrase, those that are in a folded text.
func (v *vocabulary) find(text []byte, found phraseSet) {
	if len(v.phrases) == 0 {
		return
	}
	for at := 0; at+windowSize <= len(text); at += windowStep {
		octets := windowOf(text[at], text[at+1], text[at+2])
		if h := hashOf(octets); v.may[h/64]&(1<<(h%64)) != 0 {
			v.compare(octets, text, at, found)
		}
	}
}

// compare adds the phrases that have a window with these octets, and of which all is in a
// text that has them at a place.
func (v *vocabulary) compare(octets uint32, text []byte, at int, found phraseSet) {
	for i := v.first[hashOf(octets)%(1<<firstBits)]; i != 0; i = v.windows[i].next {
		w := &v.windows[i]
		n, begin := int(w.phrase), at-int(w.offset)
		if w.octets != octets || begin < 0 || found.has(n) {
			continue
		}
		if p := v.phrases[n]; len(text)-begin >= len(p) && string(text[begin:begin+len(p)]) == p {
			found[n/64] |= 1 << (n % 64)
		}
	}
}
