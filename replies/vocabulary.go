package replies

// A vocabulary is all phrases of a Book. They are searched in one pass over a text: by
// their first four octets, of which a small table says whether any phrase begins with
// them.
type vocabulary struct {
	numbers map[string]int
	byStart map[uint32][]phrase
	may     [1 << mayBits / 64]uint64 // hashes of the starts that there are
}

type phrase struct {
	text   string
	number int
}

// mayBits is such that one position in several hundred is looked at without effect.
const mayBits = 16

func newVocabulary() *vocabulary {
	return &vocabulary{numbers: make(map[string]int), byStart: make(map[uint32][]phrase)}
}

func startOf(c0, c1, c2, c3 byte) uint32 {
	return uint32(c0)<<24 | uint32(c1)<<16 | uint32(c2)<<8 | uint32(c3)
}

func hashOf(start uint32) uint32 { return start * 2654435761 >> (32 - mayBits) }

// number returns the number of a phrase, which is at least WordsMin octets long.
func (v *vocabulary) number(text string) int {
	if n, ok := v.numbers[text]; ok {
		return n
	}
	n := len(v.numbers)
	v.numbers[text] = n
	start := startOf(text[0], text[1], text[2], text[3])
	v.byStart[start] = append(v.byStart[start], phrase{text, n})
	h := hashOf(start)
	v.may[h/64] |= 1 << (h % 64)
	return n
}

// find returns which phrases are in a folded text.
func (v *vocabulary) find(text []byte) []bool {
	found := make([]bool, len(v.numbers))
	if len(found) == 0 || len(text) < WordsMin {
		return found
	}
	start := startOf(0, text[0], text[1], text[2])
	for i := WordsMin - 1; i < len(text); i++ {
		start = start<<8 | uint32(text[i])
		if h := hashOf(start); v.may[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		rest := text[i+1-WordsMin:]
		for _, p := range v.byStart[start] {
			if !found[p.number] && len(rest) >= len(p.text) && string(rest[:len(p.text)]) == p.text {
				found[p.number] = true
			}
		}
	}
	return found
}
