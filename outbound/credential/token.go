package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/secretfile"
)

const (
	tokenMax = 8 << 10 // octets of a token, and of what a command prints
	// renewEarly is the time before its expiry at which a token is renewed, so that it is valid when the
	// server looks at it.
	renewEarly = 30 * time.Second
	// failedPause is the time for which a command that has failed is not run again.
	failedPause = 10 * time.Second
)

// tokens are the access tokens of a credential. They are safe for concurrent use: a command runs
// once, however many connections wait for it.
type tokens struct {
	source TokenSource
	turn   chan struct{} // holds one element: whoever has it may use the fields below

	current Secret
	until   time.Time
	failed  error
	pause   time.Time // until then failed is the answer
}

func (t *tokens) init(c *Credential) {
	t.source, t.turn = c.Token, make(chan struct{}, 1)
	t.turn <- struct{}{}
	if t.source.Lifetime == 0 {
		t.source.Lifetime = LifetimeDefault
	}
	if t.source.Timeout == 0 {
		t.source.Timeout = TimeoutDefault
	}
}

// Token returns a token, empty for a credential with a password. Kept means that it has been used
// before, so that it may have been withdrawn. The error has nothing of what a file or a command has said.
func (h *Held) Token(ctx context.Context) (token Secret, kept bool, err error) {
	t := &h.tokens
	switch {
	case t.source.File != "":
		token, err = readToken(t.source.File)
		return token, false, err
	case len(t.source.Command) == 0:
		return Secret{}, false, nil
	}
	select {
	case <-t.turn:
	case <-ctx.Done():
		return Secret{}, false, errors.New("interrupted while another connection waits for the token command")
	}
	defer func() { t.turn <- struct{}{} }()
	now := time.Now()
	switch {
	case !t.current.IsZero() && now.Before(t.until):
		return t.current, true, nil
	case t.failed != nil && now.Before(t.pause):
		return Secret{}, false, t.failed
	}
	token, lifetime, err := t.source.run(ctx)
	if ctx.Err() != nil {
		return Secret{}, false, errors.New("interrupted")
	}
	if t.failed = err; err != nil {
		t.pause = now.Add(failedPause)
		return Secret{}, false, err
	}
	t.current, t.until = token, now.Add(max(lifetime-renewEarly, lifetime/2))
	return token, false, nil
}

// Forget has the next call of Token find another one than the one that a server has refused.
func (h *Held) Forget(refused Secret) {
	t := &h.tokens
	<-t.turn
	if t.current.Equal(refused) {
		t.current = Secret{}
	}
	t.turn <- struct{}{}
}

func readToken(path string) (Secret, error) {
	text, err := secretfile.Read(path, tokenMax)
	if err != nil {
		return Secret{}, fmt.Errorf("token_file: %w", err)
	}
	token, ok := parseToken(firstLine(text))
	if !ok {
		return Secret{}, fmt.Errorf("token_file: the first line of %s is not an access token", path)
	}
	return token, nil
}

// run runs the command.
func (s *TokenSource) run(ctx context.Context) (Secret, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	out := &bounded{max: tokenMax}
	cmd.Stdout = out
	cmd.WaitDelay = time.Second // children that keep the pipe open
	alone(cmd)
	err := cmd.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return Secret{}, 0, fmt.Errorf("token_command: %s did not end within %v", s.Command[0], s.Timeout)
	case err != nil:
		return Secret{}, 0, fmt.Errorf("token_command: %w", err) // the exit status, or that it cannot be run
	}
	token, lifetime, ok := parseOutput(out.text, s.Lifetime)
	if !ok {
		return Secret{}, 0, fmt.Errorf("token_command: %s printed neither an access token nor JSON with access_token", s.Command[0])
	}
	return token, lifetime, nil
}

// parseOutput parses what a command has printed: a token in the first line, or the answer of a
// token endpoint (RFC 6749 5.1).
func parseOutput(text []byte, standard time.Duration) (token Secret, lifetime time.Duration, ok bool) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		token, ok = parseToken(firstLine(text))
		return token, standard, ok
	}
	var answer struct {
		Token   string  `json:"access_token"`
		Seconds float64 `json:"expires_in"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return Secret{}, 0, false
	}
	lifetime = standard
	if s := answer.Seconds; s > 0 {
		lifetime = time.Duration(min(s, (24*time.Hour).Seconds()) * float64(time.Second))
	}
	token, ok = parseToken(answer.Token)
	return token, lifetime, ok
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// parseToken accepts what RFC 6750 2.1 calls b64token, and all else that is printable and has no
// space: a line must not carry anything else into the response.
func parseToken(text string) (Secret, bool) {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return Secret{}, false
		}
	}
	return NewSecret(text), text != ""
}

// bounded keeps what is written to it, and fails beyond a limit.
type bounded struct {
	text []byte
	max  int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.max {
		return 0, errors.New("too much output")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
