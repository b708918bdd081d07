package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// dice refuses one command in oneIn: four of six for now, one for good, and one with
// the reply behind which the server disconnects. The text is what the log of the
// daemon is searched for.
func dice(stage string) (reply string, refuse bool) {
	if rand.IntN(oneIn) > 0 {
		return "", false
	}
	code := "450 4.7.1"
	switch rand.IntN(6) {
	case 0:
		code = "550 5.7.1"
	case 1:
		code = "421 4.7.0"
	}
	return code + " refused at " + stage, true
}

// servePolicy answers Postfix's questions whether to go on (SMTPD_POLICY_README),
// until ctx ends.
func servePolicy(ctx context.Context, ln net.Listener) error {
	return acceptAll(ctx, ln, func(conn net.Conn) { answerPolicy(conn) })
}

// answerPolicy answers the questions of one connection. Each is lines of attributes
// that an empty line ends.
func answerPolicy(conn net.Conn) {
	stages := map[string]string{"MAIL": stageMail, "RCPT": stageRcpt, "DATA": stageData, "END-OF-MESSAGE": stageEnd}
	var stage string
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		line := lines.Text()
		if state, ok := strings.CutPrefix(line, "protocol_state="); ok {
			stage = stages[state]
		}
		if line != "" {
			continue
		}
		action, refuse := dice(stage)
		if !refuse {
			action = "dunno"
		}
		if _, err := fmt.Fprintf(conn, "action=%s\n\n", action); err != nil {
			return
		}
	}
}
