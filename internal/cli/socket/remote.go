package socket

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// remote returns a client of a daemon on another machine.
func (p *Finder) remote() (*client.Client, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	c, err := client.NewRemote(p.URL, token)
	if err != nil {
		return nil, exit.Usagef("--url %s: %w", p.URL, err)
	}
	return c, nil
}

// tokenMax is the maximum size of a file with a token.
const tokenMax = 4096

// token returns the token for a daemon on another machine. A flag with the token itself
// would show it to all users of this machine, in the list of processes.
func (p *Finder) token() (string, error) {
	const hint = "Make one there with \"posthaste token add NAME --scope read\", or operate to give orders."
	if p.TokenFile == "" {
		if token := strings.TrimSpace(os.Getenv(TokenVariable)); token != "" {
			return checkToken("$"+TokenVariable, token)
		}
		return "", exit.New(exit.Usage, errors.New("--url needs a token, in a file that --token-file names or in $"+TokenVariable), hint)
	}
	file, err := os.Open(p.TokenFile)
	if err != nil {
		return "", exit.Errorf(exit.NoInput, "read the token: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, tokenMax+1))
	switch token := strings.TrimSpace(string(text)); {
	case err != nil:
		return "", exit.Errorf(exit.NoInput, "read the token: %w", err)
	case token == "":
		return "", exit.New(exit.NoInput, errors.New(p.TokenFile+" has no token"), hint)
	default:
		return checkToken(p.TokenFile, token)
	}
}

// checkToken refuses what cannot be a token, and would make an invalid header, such as a
// file with several lines. The text is not shown: it may be a secret.
func checkToken(from, token string) (string, error) {
	if len(token) > tokenMax || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", exit.New(exit.NoInput, fmt.Errorf("what %s has is not a token", from), "It should have the token and nothing else.")
	}
	return token, nil
}
