package spool

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// writtenLog returns a closed log with records of the given sizes.
func writtenLog(t testing.TB, num uint32, sizes []int) ([]byte, [][]byte) {
	t.Helper()
	var out bytes.Buffer
	var records [][]byte
	w := logWriter{w: &out, num: num}
	for i, n := range sizes {
		records = append(records, noise(i, n)[:n])
		if err := w.write(records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), records
}

// A repaired log must be read back as it was written, wherever the ends of blocks
// fall.
func TestLogWriterAndScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		var sizes []int
		for range rng.IntN(12) {
			sizes = append(sizes, 12+rng.IntN(1<<(4+rng.IntN(13))))
		}
		if rng.IntN(2) == 0 { // the end of a block in or near a header
			sizes = append([]int{logBlock - logHeader - rng.IntN(40)}, sizes...)
		}
		log, want := writtenLog(t, 9, sizes)
		var got [][]byte
		r, err := scanLog(bytes.NewReader(log), 9, func(record []byte, afterHole bool) error {
			got = append(got, bytes.Clone(record))
			return nil
		})
		if err != nil || r.end != logSound || r.size != int64(len(log)) || len(got) != len(want) {
			t.Fatalf("sizes %v: %+v %v, %d records", sizes, r, err, len(got))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("sizes %v: record %d differs", sizes, i)
			}
		}
	}
}

// A sender may put data into mail that looks like a chunk of the log. If the damage
// hits that mail, the data must not be taken for one.
func TestChunksInContentsAreNotUsed(t *testing.T) {
	forged, _ := writtenLog(t, 9, []int{50})
	var out bytes.Buffer
	w := logWriter{w: &out, num: 9}
	mail := append(noise(1, 400), forged[:61]...)
	for _, record := range [][]byte{noise(0, 100), append(mail, noise(2, 100)...), noise(3, 100)} {
		if err := w.write(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{4, 5, 6, 11} { // of the length, the type and the content
		log := bytes.Clone(out.Bytes())
		log[logHeader+len(noise(0, 100))+at] ^= 0x10
		r, err := scanLog(bytes.NewReader(log), 9, func(record []byte, afterHole bool) error {
			if !bytes.Equal(record, noise(0, 100)) && !bytes.Equal(record, noise(3, 100)) {
				t.Errorf("damage at %d: a record of %d octets was read", at, len(record))
			}
			return nil
		})
		if err != nil || r.end < logDoubtful {
			t.Errorf("damage at %d: %+v %v", at, r, err)
		}
	}
}

// A log that is written into the file of an older one, and interrupted by kill -9 in the
// middle of a chunk, ends with what the older one had there. That is no damage, but if the
// chunk was damaged by other means, it stays one: also if a sender has put the chunk of
// an older log into it.
func TestLogInterruptedInAnOlderFile(t *testing.T) {
	const page = 4096
	log, _ := writtenLog(t, 9, []int{3000, 4000})
	at := int64(logHeader + 3000)
	forged, _ := writtenLog(t, 7, []int{300})
	for _, c := range []struct {
		name  string
		older []int // sizes of the older log's records
		spoil func(log, older []byte) []byte
		end   logEnd
	}{
		{"the older log has a chunk across the end", []int{4100, 2500, 900}, func(log, older []byte) []byte {
			return append(log[:page:page], older[page:]...)
		}, logTorn},
		{"the older log's chunk begins before the interruption", []int{4000, 3500, 900}, func(log, older []byte) []byte {
			return append(log[:page:page], older[page:]...)
		}, logDoubtful},
		{"the older log has a small part of a chunk before the end", []int{4100, 2870, 900}, func(log, older []byte) []byte {
			return append(log[:page:page], older[page:]...)
		}, logTorn},
		{"a log that cannot be older has a chunk across the end", nil, func(log, _ []byte) []byte {
			newer, _ := writtenLog(t, 11, []int{4100, 2500, 900})
			return append(log[:page:page], newer[page:]...)
		}, logDoubtful},
		{"damaged, with a chunk at the end of the mail", []int{4100, 2500, 900}, func(log, older []byte) []byte {
			end := at + logHeader + 4000
			log = append(log[:end:end], older[end:]...)
			copy(log[end-logHeader-300:], forged[:logHeader+300])
			return log
		}, logDoubtful},
		{"the whole chunk is there, and damaged", []int{4100, 2500, 900}, func(log, older []byte) []byte {
			log = append(log[:at+logHeader+4000:at+logHeader+4000], older[at+logHeader+4000:]...)
			log[at+logHeader+20] ^= 1
			return log
		}, logDoubtful},
		{"damaged, with a chunk in the mail", []int{4100, 2500, 900}, func(log, older []byte) []byte {
			log = append(log[:at+logHeader+4000:at+logHeader+4000], older[at+logHeader+4000:]...)
			copy(log[at+3000:], forged[:logHeader+300])
			return log
		}, logDoubtful},
	} {
		older, _ := writtenLog(t, 7, c.older)
		r, err := scanLog(bytes.NewReader(c.spoil(bytes.Clone(log), older)), 9, nil)
		if err != nil || r.end != c.end || r.at != at {
			t.Errorf("%s: ends %d at %d, want %d at %d; %v", c.name, r.end, r.at, c.end, at, err)
		}
	}
}

func FuzzScanLog(f *testing.F) {
	log, _ := writtenLog(f, 9, []int{100, 40_000, 13})
	f.Add(log)
	f.Add(log[:33_000])
	f.Add(bytes.Repeat([]byte{0}, 100))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := scanLog(bytes.NewReader(log), 9, nil)
		if err != nil || r.end < logSound || r.end > logDamaged || r.at > int64(len(log)) || r.holes > int64(len(log)) {
			t.Errorf("%+v %v", r, err)
		}
	})
}
