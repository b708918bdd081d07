package spool

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"path"
	"testing"

	tblock "github.com/cockroachdb/pebble/v2/sstable/block"
)

// blockAfterNaive tries each beginning in turn.
func blockAfterNaive(data []byte, offset, span, max int) (at, end int) {
	for at = offset + 1; at < len(data) && at-offset < span; at++ {
		if end = blockEnd(data, at, max); end != 0 && dataBlock(data[at:end]) != nil {
			return at, end
		}
	}
	return 0, 0
}

// Behind any damage to a table the same block is found as by trying each beginning in turn,
// with all limits of the search.
func TestBlockAfter(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	img, _ := spooled(t, false)
	rng := rand.New(rand.NewPCG(1, 2))
	found, missed := 0, 0
	for _, name := range img.names(isTable) {
		for round := range 6 {
			data := bytes.Clone(img[name])
			offset, n := rng.IntN(len(data)), 1+rng.IntN(200)
			clear(data[offset:min(offset+n, len(data))])
			span, max := 1+rng.IntN(2000), 1+rng.IntN(6000)
			if round%2 == 0 { // as a rule there is a block
				span, max = 6000, 8000
			}
			at, end := blockAfter(data, offset, span, max)
			if wantAt, wantEnd := blockAfterNaive(data, offset, span, max); at != wantAt || end != wantEnd {
				t.Errorf("%s, cleared from %d to %d, %d octets, blocks of %d at most: a block from %d to %d, want %d to %d",
					path.Base(name), offset, offset+n, span, max, at, end, wantAt, wantEnd)
			}
			if end == 0 {
				missed++
			} else {
				found++
			}
		}
	}
	if t.Logf("%d blocks were found, %d times none", found, missed); found == 0 || missed == 0 {
		t.Error("too few of one kind")
	}
}

// What has the checksum of a block by chance, and is none, hides no block behind it.
func TestBlockBehindChance(t *testing.T) {
	img, _ := spooled(t, false)
	tables := img.names(isTable)
	data := img[tables[len(tables)-1]]
	end := blockEnd(data, 0, blockMost)
	chance := []byte{0, 'x', byte(tblock.NoCompressionIndicator)}
	chance = binary.LittleEndian.AppendUint32(chance, chunkSum(chance[1:]))
	if got := blockEnd(chance, 1, 9); got != len(chance) {
		t.Fatalf("the chance ends at %d, want %d", got, len(chance))
	}
	data = append(chance, data[:end]...)
	if at, to := blockAfter(data, 0, 100, blockBehind); at != len(chance) || to != len(data) {
		t.Errorf("a block from %d to %d, want %d to %d", at, to, len(chance), len(data))
	}
	if at, to := blockAfter(nil, 0, 100, 100); at != 0 || to != 0 {
		t.Errorf("a block of nothing, from %d to %d", at, to)
	}
}
