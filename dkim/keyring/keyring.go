// Package keyring reads the private keys of package dkim from files, and writes new ones.
//
// A file that others than its owner may read is refused, unless it belongs to a group of
// this process and only the group may read it: whoever has a key can sign mail of its domain.
package keyring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/internal/atomicfile"
	"github.com/posthaste-mta/posthaste/internal/secretfile"
)

// A Key is a key whose private part is in a file.
type Key struct {
	dkim.Key
	File string // its path
}

// Config configures a ring.
type Config struct {
	Keys []Key
	// BySender is that of dkim.Ring.
	BySender bool
}

// fileMax is the size of the largest file that is read. A key of 4096 bits takes 3.3 KB.
const fileMax = 32 << 10

// ErrUnusable is wrapped by the errors of Load.
var ErrUnusable = errors.New("keys of signatures cannot be used")

// Load reads all keys. The error has all that is wrong; it names files, and has nothing of
// what is in them. Without keys it returns nil, and nothing is signed.
func Load(cfg Config) (*dkim.Ring, error) {
	if len(cfg.Keys) == 0 {
		return nil, nil
	}
	keys := make([]dkim.Key, 0, len(cfg.Keys))
	var wrong []error
	for _, k := range cfg.Keys {
		private, err := Read(k.File)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("dkim key %s: %w", k.Name, err))
			continue
		}
		k.Key.Private = private
		keys = append(keys, k.Key)
	}
	if len(wrong) > 0 {
		return nil, unusable(errors.Join(wrong...))
	}
	r, err := dkim.NewRing(keys)
	if err != nil {
		return nil, unusable(err)
	}
	r.BySender = cfg.BySender
	return r, nil
}

// unusable returns the error of Load, on one line.
func unusable(wrong error) error {
	return fmt.Errorf("%w: %s", ErrUnusable, strings.ReplaceAll(wrong.Error(), "\n", "; "))
}

// Read reads a private key.
func Read(path string) (dkim.PrivateKey, error) {
	text, err := secretfile.Read(path, fileMax)
	if err != nil {
		return dkim.PrivateKey{}, err // it names the path
	}
	defer clear(text)
	k, err := dkim.ParsePrivateKey(text)
	if err != nil {
		return k, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// Write writes a new private key, readable by its owner only, and makes it durable. It never
// replaces a file. One that root writes belongs to the owner of its directory.
func Write(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close(), Adopt(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return atomicfile.SyncDirectory(filepath.Dir(path))
}
