package cluster

import (
	"fmt"
	"strings"
	"time"
)

// Limits of the ports.
const (
	NameMax       = 64        // bytes of a node's or a bucket's name
	KeyMax        = 256       // bytes of a key or topic
	ValueMax      = 512 << 10 // bytes of a value; a Bucket may have less
	RegisterMax   = 64 << 10  // bytes of a register's value
	TTLMin        = time.Second
	TTLMax        = 365 * 24 * time.Hour
	GossipTTLMin  = 10 * time.Millisecond
	GossipTTLMax  = 10 * time.Minute
	GossipPending = 4096 // registers that a subscription keeps until they are fetched
)

// A Bucket describes a bucket of the store.
type Bucket struct {
	// Name is one element of a key (ValidName).
	Name string
	// ValueMax is the maximum length of a value in bytes; 0 is the constant ValueMax.
	ValueMax int
	// BytesMax is the maximum size of the bucket on each node that keeps it, in
	// bytes; changes that need more fail with ErrFull. 0 is 64 MiB.
	BytesMax int64
	// MarkerTTL is how long the store remembers that a key is gone, and so how slow a
	// watcher may be before it becomes Stale. 0 is 15 minutes; it is at least TTLMin.
	MarkerTTL time.Duration
}

// WithDefaults returns b with defaults in place of zero values.
func (b Bucket) WithDefaults() Bucket {
	if b.ValueMax == 0 {
		b.ValueMax = ValueMax
	}
	if b.BytesMax == 0 {
		b.BytesMax = 64 << 20
	}
	if b.MarkerTTL == 0 {
		b.MarkerTTL = 15 * time.Minute
	}
	return b
}

// Validate returns what is wrong with b, which wraps ErrInvalid.
func (b Bucket) Validate() error {
	full := b.WithDefaults()
	switch {
	case !ValidName(b.Name):
		return fmt.Errorf("bucket %q: %w", b.Name, ErrInvalid)
	case full.ValueMax < 0 || full.ValueMax > ValueMax:
		return fmt.Errorf("bucket %s: values of %d bytes: %w", b.Name, b.ValueMax, ErrInvalid)
	case full.BytesMax < 1<<10:
		return fmt.Errorf("bucket %s: size %d: %w", b.Name, b.BytesMax, ErrInvalid)
	case full.MarkerTTL < TTLMin || full.MarkerTTL > TTLMax:
		return fmt.Errorf("bucket %s: markers for %v: %w", b.Name, b.MarkerTTL, ErrInvalid)
	}
	return nil
}

// CheckWrite returns what is wrong with a change, which wraps ErrInvalid.
func (b Bucket) CheckWrite(key string, value []byte, ttl time.Duration) error {
	switch {
	case !ValidKey(key):
		return fmt.Errorf("key %q: %w", key, ErrInvalid)
	case len(value) > b.WithDefaults().ValueMax:
		return fmt.Errorf("key %s: value of %d bytes: %w", key, len(value), ErrInvalid)
	case ttl != 0 && (ttl < TTLMin || ttl > TTLMax):
		return fmt.Errorf("key %s: TTL %v: %w", key, ttl, ErrInvalid)
	}
	return nil
}

// CheckRegister returns what is wrong with a register, which wraps ErrInvalid.
func CheckRegister(topic string, value []byte, ttl time.Duration) error {
	switch {
	case !ValidKey(topic):
		return fmt.Errorf("topic %q: %w", topic, ErrInvalid)
	case len(value) > RegisterMax:
		return fmt.Errorf("topic %s: value of %d bytes: %w", topic, len(value), ErrInvalid)
	case ttl < GossipTTLMin || ttl > GossipTTLMax:
		return fmt.Errorf("topic %s: TTL %v: %w", topic, ttl, ErrInvalid)
	}
	return nil
}

// WholeSeconds rounds a TTL up to seconds.
func WholeSeconds(ttl time.Duration) time.Duration {
	return (ttl + time.Second - 1).Truncate(time.Second)
}

// ValidName reports whether a text is a name of a node or a bucket, or an element of
// a key: letters, digits, hyphens and underscores of ASCII, at most NameMax. Other
// texts are encoded, for example in base32.
func ValidName(name string) bool {
	return len(name) <= NameMax && validElement(name)
}

// ValidKey reports whether a text is a key or a topic: elements as in names, of any
// length, with dots in between, at most KeyMax bytes.
func ValidKey(key string) bool {
	if len(key) > KeyMax {
		return false
	}
	for element := range strings.SplitSeq(key, ".") {
		if !validElement(element) {
			return false
		}
	}
	return true
}

// ValidPattern reports whether a text is a pattern: empty, which matches all keys; a
// key; or a key and a dot, which matches the keys that begin so.
func ValidPattern(pattern string) bool {
	return pattern == "" || ValidKey(strings.TrimSuffix(pattern, "."))
}

// Matches reports whether a pattern matches a key.
func Matches(pattern, key string) bool {
	return pattern == "" || pattern == key || strings.HasSuffix(pattern, ".") && strings.HasPrefix(key, pattern)
}

func validElement(element string) bool {
	for i := range len(element) {
		switch c := element[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return element != ""
}
