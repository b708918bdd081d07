package milter

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Versions of the protocol.
const (
	versionMin = 2
	versionMax = 6
)

// Changes that a milter may ask for: what is offered to it is all of them.
const (
	mayAddHeaders = 1 << iota
	mayChangeBody
	mayAddRcpt
	mayDelRcpt
	mayChangeHeaders
	mayQuarantine
	mayChangeFrom
	mayAddRcptPar
	mayChooseMacros
	mayAll = 1<<iota - 1
)

// Steps that a milter does not want to receive, or that it does not answer.
const (
	noConnect = 1 << iota
	noHelo
	noMail
	noRcpt
	noBody
	noHeaders
	noEOH
	mutedHeader
	noUnknown // of commands that are not known: they are never told
	noData
	maySkip
	_ // recipients that were refused: they are never told
	mutedConnect
	mutedHelo
	mutedMail
	mutedRcpt
	mutedData
	mutedUnknown
	mutedEOH
	mutedBody
	leadingSpace // header fields are passed with the space after the colon
	stepsEnd
	stepsAll = stepsEnd - 1 - 1<<11
)

// Of versions before 6, only these exist.
const stepsOld = noConnect | noHelo | noMail | noRcpt | noBody | noHeaders | noEOH | mutedHeader | noUnknown | noData

// An agreement is the result of the negotiation.
type agreement struct {
	version uint32
	may     uint32 // changes
	steps   uint32
	macros  [stages]string // asked for, separated by spaces
	chosen  [stages]bool   // macros of the stage are those asked for
}

// offer appends the packet that begins a negotiation.
func offer(b []byte) []byte {
	b, at := beginPacket(b, cmdNegotiate)
	b = binary.BigEndian.AppendUint32(b, versionMax)
	b = binary.BigEndian.AppendUint32(b, mayAll)
	b = binary.BigEndian.AppendUint32(b, stepsAll)
	return endPacket(b, at)
}

// agree reads a milter's part of the negotiation.
func agree(a *answer) (*agreement, error) {
	if a.code != cmdNegotiate || len(a.data) < 12 {
		return nil, broken("%q and %d bytes in place of its part of the negotiation", a.code, len(a.data))
	}
	g := &agreement{version: binary.BigEndian.Uint32(a.data), may: binary.BigEndian.Uint32(a.data[4:]), steps: binary.BigEndian.Uint32(a.data[8:])}
	g.steps &= 1<<28 - 1 // above are sizes of packets, of which none was offered
	switch {
	case g.version < versionMin || g.version > versionMax:
		return nil, broken("version %d; this program knows %d to %d", g.version, versionMin, versionMax)
	case g.may&^mayAll != 0:
		return nil, broken("it asks for changes that were not offered: %#x", g.may)
	case g.steps&^stepsAll != 0:
		return nil, broken("it asks for steps that were not offered: %#x", g.steps)
	}
	if !g.knows(cmdData) {
		g.steps |= noData
	}
	return g, g.macroLists(a.data[12:])
}

// knows reports whether a command is one of the milter's version of the protocol.
func (g *agreement) knows(command byte) bool { return command != cmdData || g.version > 3 }

// macroLists reads the names of the macros that a milter asks for.
func (g *agreement) macroLists(data []byte) error {
	for len(data) > 0 {
		if len(data) < 5 {
			return broken("%d bytes at the end of its part of the negotiation", len(data))
		}
		stage := binary.BigEndian.Uint32(data)
		names, rest, ended := bytes.Cut(data[4:], []byte{0})
		if !ended {
			return broken("a list of macros without an end")
		}
		if stage < uint32(stages) { // a later version may have more
			g.macros[stage], g.chosen[stage] = strings.ReplaceAll(string(names), ",", " "), true
		}
		data = rest
	}
	return nil
}

func (g *agreement) wants(not uint32) bool { return g.steps&not == 0 }
