// Package linefile keeps records in files of text, one on a line, so that damage costs only the
// records of the damaged lines.
//
// The first line names the kind of file and its version. Each other line has the checksum of a
// record in JSON (CRC-32C, eight hexadecimal digits), a space, and that JSON. In such a file,
// lines may be removed by hand; a line that is changed by hand is lost.
package linefile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
)

// overhead is what a line has besides its JSON, in octets.
const overhead = len("01234567 \n")

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// A Format is what the files of one kind have in common.
type Format struct {
	Head    string // the first line
	LineMax int    // the maximum length of a line, in octets
}

// New returns the beginning of a file's contents: its first line.
func (f Format) New() []byte { return []byte(f.Head + "\n") }

// Append appends a record, which JSON can express, to a file's contents. One that is too long for a line
// is left out.
func (f Format) Append(contents []byte, record any) []byte {
	data, err := json.Marshal(record)
	if err != nil || len(data)+overhead > f.LineMax {
		return contents
	}
	return fmt.Appendf(contents, "%08x %s\n", checksum(data), data)
}

// Load reads the records of a file; one that is missing has none. For each of them it calls take
// with its JSON; an error means that the record cannot be used. Load returns the number of lines that are damaged or could not be used, and why the
// rest of the file could not be read.
func (f Format) Load(path string, take func(data []byte) error) (damaged int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, f.LineMax)
	if !in.Scan() || in.Text() != f.Head {
		damaged++
	}
	for in.Scan() {
		data, ok := record(in.Text())
		if !ok || take(data) != nil {
			damaged++
		}
	}
	return damaged, in.Err()
}

// record returns the JSON of a line.
func record(line string) (data []byte, ok bool) {
	head, text, _ := strings.Cut(line, " ")
	data = []byte(text)
	return data, head == fmt.Sprintf("%08x", checksum(data))
}
