package trace

import (
	"errors"
	"fmt"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// version is that of the file format. A program that writes what another one
// would misread raises it; a type or a field more is no reason, since they are
// refused by name.
const version = "1"

// The words that lines of a file begin with that are neither events nor actions.
const (
	magic      = "posthaste-trace"
	configWord = "config"
	endWord    = "end"
)

// A Head is what a trace file begins with: all that a core depends on besides
// its events.
type Head struct {
	By     string // the program that wrote it, for people
	Seed   uint64
	Epoch  mail.Instant // written as 0s
	Config qmgr.Config
}

// Format returns how the lines behind the head are written.
func (h Head) Format() Format { return Format{Epoch: h.Epoch} }

// Append appends the two lines of the head.
func (h Head) Append(b []byte) []byte {
	c := codec{writing: true, out: append(b, magic...)}
	c.head(&h)
	c.out = append(c.out, "\n"+configWord...)
	c.config(&h.Config)
	return append(c.out, '\n')
}

// head is what stands behind the magic word.
func (c *codec) head(h *Head) {
	v := version
	c.word("version", &v)
	if c.err == nil && v != version {
		c.fail("this is version %s of the format, and this program knows version %s only", v, version)
	}
	c.text("by", &h.By)
	seed := formatUint(h.Seed)
	c.text("seed", &seed)
	if !c.writing && c.err == nil {
		h.Seed = c.uint64(seed)
	}
	c.instant("epoch", &h.Epoch)
}

// errNoTrace is for a file of another kind.
var errNoTrace = errors.New(`this is no trace: want "` + magic + ` ` + version + `" at its beginning`)

func parseHead(text string) (h Head, err error) {
	words, err := split(text)
	if err != nil || len(words) == 0 || words[0].key != "" || words[0].value != magic {
		return h, errNoTrace
	}
	c := codec{in: words[1:]}
	c.head(&h)
	return h, c.finish()
}

func parseConfig(text string) (cfg qmgr.Config, err error) {
	words, err := split(text)
	if err == nil && (len(words) == 0 || words[0].key != "" || words[0].value != configWord) {
		err = fmt.Errorf("want the configuration, which begins with %q", configWord)
	}
	if err != nil {
		return cfg, err
	}
	c := codec{in: words[1:]}
	c.config(&cfg)
	return cfg, c.finish()
}
