package golden

import (
	"fmt"
	"strings"
)

// parse returns the blocks of a script and the lines after the last one.
func parse(path, text string) (blocks []*Block, tail []string, err error) {
	p := parser{path: path, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	if text == "" {
		p.lines = nil
	}
	for {
		b, err := p.block()
		if err != nil {
			return nil, nil, err
		}
		if len(b.Lines) == 0 {
			return blocks, b.head, nil
		}
		blocks = append(blocks, b)
	}
}

type parser struct {
	path  string
	lines []string
	next  int
}

func (p *parser) pos() string { return fmt.Sprintf("%s:%d", p.path, p.next) }

// block reads one block, or what is left if that has no commands.
func (p *parser) block() (*Block, error) {
	b := &Block{}
	for p.next < len(p.lines) {
		text := p.lines[p.next]
		p.next++
		switch trimmed := strings.TrimSpace(text); {
		case text == fence && len(b.Lines) == 0:
			return nil, fmt.Errorf("%s: an answer without a command", p.pos())
		case text == fence:
			var err error
			b.want, err = p.answer()
			return b, err
		case trimmed == "" && len(b.Lines) > 0:
			return nil, fmt.Errorf("%s: want %q after the commands, not an empty line", p.pos(), fence)
		case trimmed != "" && trimmed[0] != '#':
			line, err := parseLine(p.pos(), trimmed)
			if err != nil {
				return nil, err
			}
			b.Lines = append(b.Lines, line)
			b.Pos = b.Lines[0].Pos
		}
		b.head = append(b.head, text)
	}
	if len(b.Lines) > 0 {
		return nil, fmt.Errorf("%s: want %q after the commands, not the end", p.pos(), fence)
	}
	return b, nil
}

// answer reads an answer; the empty line that ends it is left to become a
// part of the next block's head.
func (p *parser) answer() (string, error) {
	fenced := p.next < len(p.lines) && p.lines[p.next] == fence
	if fenced {
		p.next++
	}
	var out strings.Builder
	for ; p.next < len(p.lines); p.next++ {
		text := p.lines[p.next]
		if fenced && text == fence && p.next+1 < len(p.lines) && p.lines[p.next+1] == fence {
			p.next += 2
			return out.String(), nil
		}
		if !fenced && text == "" {
			return out.String(), nil
		}
		out.WriteString(text + "\n")
	}
	if fenced {
		return "", fmt.Errorf("%s: want %q twice at the end of the answer", p.pos(), fence)
	}
	return out.String(), nil
}
