package postfix

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/human"
)

// An optionSet is the options that a classic program knows.
type optionSet struct {
	flags    string // letters without a value
	valued   string // letters with a value, in the same word or the next one
	attached string // letters whose value, if any, is the rest of the word
}

// An option is one option as given.
type option struct {
	letter byte
	value  string
}

// Options are what getopt found.
type options struct {
	options []option
	rest    []string // from the first word on that is no option
}

// getopt reads a command line as getopt(3) does: letters may share a word, a
// value may follow its letter directly, and "--" ends the options. Unlike
// cobra's, it knows no long options, since "-bs" is one letter and its value.
func getopt(args []string, known optionSet) (options, error) {
	var found options
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			args = args[1:]
			break
		}
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		for i := 1; i < len(word); i++ {
			letter := word[i]
			switch {
			case strings.IndexByte(known.flags, letter) >= 0:
				found.options = append(found.options, option{letter: letter})
				continue
			case strings.IndexByte(known.attached, letter) >= 0:
				found.options = append(found.options, option{letter, word[i+1:]})
			case strings.IndexByte(known.valued, letter) >= 0:
				value := word[i+1:]
				if value == "" {
					if len(args) == 0 {
						return found, fmt.Errorf("option -%c needs a value", letter)
					}
					value, args = args[0], args[1:]
				}
				found.options = append(found.options, option{letter, value})
			case strings.HasPrefix(word, "--"):
				return found, fmt.Errorf("there is no option %s", human.Plain(word))
			default:
				return found, fmt.Errorf("there is no option -%s", human.Plain(string(letter)))
			}
			break
		}
	}
	found.rest = args
	return found, nil
}
