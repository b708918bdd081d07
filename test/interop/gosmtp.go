package main

import (
	"context"
	"path/filepath"
	"strconv"
)

// startGoSMTP starts a server made with the version of go-smtp that a module file of
// peers/gosmtp asks for. It refuses at random and passes all else on to our receiver.
func startGoSMTP(ctx context.Context, t *trial, version program, address string) (*process, error) {
	p, err := startProcess(t.dir, string(version), filepath.Join(t.peers, string(version)),
		"-listen", address, "-to", receiverAddr, "-refuse", strconv.Itoa(oneIn), "-last", lastLine)
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, address)
}
