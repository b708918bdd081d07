package users

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/posthaste-mta/posthaste/sasl"
)

// A hash is a password's Argon2id (RFC 9106) with its parameters.
type hash struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
	salt    []byte
	sum     []byte
}

// Parameters of new hashes: OWASP's first choice for little memory. A check takes 19 MiB
// and 24 ms of one processor (BenchmarkCheck).
const (
	newMemory  = 19 << 10
	newPasses  = 2
	newThreads = 1
	newSalt    = 16
	newSum     = 32
	newRounds  = 65536 // of SCRAM; the client computes them, in some 20 ms
)

// Limits of parameters in a file. They bound the memory and the time of a check; the lower
// ones are those below which a stolen hash is soon broken.
const (
	memoryMin, memoryMax   = 8 << 10, 64 << 10
	passesMin, passesMax   = 1, 10
	threadsMin, threadsMax = 1, 4
)

// MemoryMax is the memory that one check takes at most, in bytes.
const MemoryMax = memoryMax << 10

// check reports whether a password is the one. It takes the time and memory that the
// parameters say.
func (h *hash) check(prepared string) bool {
	sum := argon2.IDKey([]byte(prepared), h.salt, h.passes, h.memory, h.threads, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}

func newHash(prepared string) *hash {
	h := &hash{memory: newMemory, passes: newPasses, threads: newThreads, salt: random(newSalt)}
	h.sum = make([]byte, newSum)
	return h.with(prepared)
}

// with sets the sum to that of a password.
func (h *hash) with(prepared string) *hash {
	h.sum = argon2.IDKey([]byte(prepared), h.salt, h.passes, h.memory, h.threads, uint32(len(h.sum)))
	return h
}

// random returns random bytes. crypto/rand never fails.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

var bare = base64.RawStdEncoding.Strict()

// String returns the hash in its form in the file.
func (h *hash) String() string {
	return fmt.Sprintf("%sv=%d$m=%d,t=%d,p=%d$%s$%s", hashPrefix, argon2.Version, h.memory, h.passes, h.threads, bare.EncodeToString(h.salt), bare.EncodeToString(h.sum))
}

const (
	hashPrefix = "$argon2id$"
	keysPrefix = "SCRAM-SHA-256$"
)

func parseHash(text string) (*hash, error) {
	parts := strings.Split(strings.TrimPrefix(text, hashPrefix), "$")
	if len(parts) != 4 || parts[0] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, fmt.Errorf("not of the form $argon2id$v=%d$m=…,t=…,p=…$salt$hash", argon2.Version)
	}
	h := &hash{}
	parameters := strings.Split(parts[1], ",")
	if len(parameters) != 3 {
		return nil, fmt.Errorf("not of the form m=…,t=…,p=…")
	}
	for i, p := range []struct {
		name     string
		min, max uint64
		set      func(uint64)
	}{
		{"m=", memoryMin, memoryMax, func(v uint64) { h.memory = uint32(v) }},
		{"t=", passesMin, passesMax, func(v uint64) { h.passes = uint32(v) }},
		{"p=", threadsMin, threadsMax, func(v uint64) { h.threads = uint8(v) }},
	} {
		number, found := strings.CutPrefix(parameters[i], p.name)
		v, err := strconv.ParseUint(number, 10, 32)
		if !found || err != nil || v < p.min || v > p.max {
			return nil, fmt.Errorf("%s of Argon2id is not a number between %d and %d", p.name, p.min, p.max)
		}
		p.set(v)
	}
	var err error
	if h.salt, err = bare.DecodeString(parts[2]); err != nil || len(h.salt) < sasl.SaltMin || len(h.salt) > sasl.SaltMax {
		return nil, fmt.Errorf("the salt of Argon2id is not %d to %d bytes in base64", sasl.SaltMin, sasl.SaltMax)
	}
	if h.sum, err = bare.DecodeString(parts[3]); err != nil || len(h.sum) < 16 || len(h.sum) > 64 {
		return nil, fmt.Errorf("the hash of Argon2id is not 16 to 64 bytes in base64")
	}
	return h, nil
}

var padded = base64.StdEncoding.Strict()

// keysText returns keys in their form in the file (RFC 5803).
func keysText(k *sasl.Keys) string {
	return fmt.Sprintf("%s%d:%s$%s:%s", keysPrefix, k.Iterations, padded.EncodeToString(k.Salt), padded.EncodeToString(k.Stored), padded.EncodeToString(k.Server))
}

func parseKeys(text string) (*sasl.Keys, error) {
	first, second, found := strings.Cut(strings.TrimPrefix(text, keysPrefix), "$")
	rounds, salt, found2 := strings.Cut(first, ":")
	stored, server, found3 := strings.Cut(second, ":")
	if !found || !found2 || !found3 {
		return nil, fmt.Errorf("not of the form SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey")
	}
	k := &sasl.Keys{}
	var err error
	if k.Iterations, err = strconv.Atoi(rounds); err != nil {
		return nil, fmt.Errorf("the iterations of SCRAM are not a number")
	}
	for _, one := range []struct {
		text string
		to   *[]byte
	}{{salt, &k.Salt}, {stored, &k.Stored}, {server, &k.Server}} {
		if *one.to, err = padded.DecodeString(one.text); err != nil {
			return nil, fmt.Errorf("the salt or a key of SCRAM is not base64")
		}
	}
	if err := k.Validate(); err != nil {
		return nil, fmt.Errorf("SCRAM: %w", err)
	}
	return k, nil
}
