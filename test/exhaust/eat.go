package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
)

// The file system has room for all messages, and few files beyond theirs.
const mountOptions = "size=160m,nr_inodes=4096,mode=0700"

// An eater takes what is left of a file system, and puts it into a directory. It
// returns how much it took.
type eater func(dir string, round int) (int64, error)

var eaters = map[string]eater{"inodes": eatInodes, "space": eatSpace}

func eatInodes(dir string, round int) (n int64, err error) {
	for {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d-%d", round, n)))
		if errors.Is(err, syscall.ENOSPC) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if err := f.Close(); err != nil {
			return n, err
		}
		n++
	}
}

func eatSpace(dir string, round int) (n int64, err error) {
	f, err := os.Create(filepath.Join(dir, fmt.Sprint(round)))
	if errors.Is(err, syscall.ENOSPC) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	piece := make([]byte, 64<<10)
	for len(piece) > 0 {
		m, err := f.Write(piece)
		n += int64(m)
		if errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			return n, errors.Join(err, f.Close())
		}
	}
	return n, f.Close()
}

// exhaust takes all that there is, and whatever becomes free, for a time.
func exhaust(ctx context.Context, dir string, eat eater, hold time.Duration) (eaten int64, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	for end, round := time.Now().Add(hold), 0; time.Now().Before(end); round++ {
		n, err := eat(dir, round)
		eaten += n
		if err != nil {
			return eaten, err
		}
		if !pause.For(ctx, 10*time.Millisecond) {
			return eaten, ctx.Err()
		}
	}
	return eaten, os.RemoveAll(dir)
}
