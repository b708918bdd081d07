package main

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A wire that took everything for the same would prove any level. Each conversation
// goes one way, and is fed in segments and octet by octet.
func TestWire(t *testing.T) {
	const hello = "S:220 x|C:EHLO me|S:250-x|S:250 PIPELINING|"
	for _, test := range []struct{ name, talk, want string }{
		{"lockstep", hello + "C:MAIL FROM:<a>|S:250 ok|C:RCPT TO:<b>|S:250 ok|C:DATA|S:354 go|C:MAIL FROM:<x>|C:.|S:250 ok|C:MAIL FROM:<a>|S:250 ok|C:RCPT TO:<b>|S:250 ok|C:DATA|S:354 go|C:.|S:250 ok",
			"transactions lockstep 2, at most 1 unanswered; connections 1, cut 0, probed 0"},
		{"group", hello + "C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 ok|S:250 ok|S:354 go|C:text|C:.|S:250 ok|C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 ok",
			"transactions group 2, at most 1 unanswered; connections 1, cut 0, probed 0"},
		{"a refused DATA is followed by a command", hello + "C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 ok|S:550 no|S:554 no|C:RSET|C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 ok",
			"transactions group 2, at most 1 unanswered; connections 1, cut 0, probed 0"},
		{"overlap", hello + "C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 ok|S:250 ok|S:354 go|C:..|C:.|C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 taken|S:250 ok|S:250 ok|S:354 go|C:.|S:250 ok",
			"transactions group 1 overlap 1, at most 2 unanswered; connections 1, cut 0, probed 0"},
		{"overlap, late", hello + "C:MAIL FROM:<a>|C:RCPT TO:<b>|C:DATA|S:250 ok|S:250 ok|S:354 go|C:.|C:MAIL FROM:<a>|S:250 taken|S:250 ok|C:RCPT TO:<b>|S:250 ok|C:DATA",
			"transactions group 1 overlap 1, at most 1 unanswered; connections 1, cut 0, probed 0"},
		{"stream", hello + "C:RSET|C:MAIL FROM:<a>|C:RCPT TO:<b>|C:BDAT 7 LAST|C:MAIL |C:RSET|C:MAIL FROM:<a>|C:RCPT TO:<b>|C:BDAT 7 LAST|C:DATA |C:QUIT|S:250 a|S:250 b",
			"transactions stream 2, at most 2 unanswered; connections 1, cut 0, probed 0"},
		{"a probe", hello + "C:RSET|C:MAIL FROM:<a>|C:BDAT 6 LAST|C:NOOP|C:RSET|S:250 a|S:250 b|S:503 c|S:250 d|C:QUIT",
			"transactions, at most 0 unanswered; connections 1, cut 0, probed 1"},
		{"chunks in lockstep", hello + "C:MAIL FROM:<a>|S:250 ok|C:RCPT TO:<b>|S:250 ok|C:BDAT 7|C:MAIL |S:250 ok|C:BDAT 7 LAST|C:MAIL |S:250 ok",
			"transactions lockstep 1, at most 1 unanswered; connections 1, cut 0, probed 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 1000} {
				var counts wireCounts
				w := newWire(&counts)
				for line := range strings.SplitSeq(test.talk, "|") {
					tell := w.said
					if line[0] == 'S' {
						tell = w.answered
					}
					for text := line[2:] + "\r\n"; text != ""; text = text[min(size, len(text)):] {
						tell([]byte(text[:min(size, len(text))]))
					}
				}
				if got := counts.String(); got != test.want {
					t.Errorf("in pieces of %d: %s, want %s", size, got, test.want)
				}
			}
		})
	}
}

// A tap must not change what it carries, nor end before both sides have; and what it
// is to cut it must cut.
func TestTap(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // an echo that ends when its client does
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			io.Copy(conn, conn)
			conn.Close()
		}
	}()
	for _, cuts := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		tap, err := newTap(ctx, server.Addr().String(), 2*time.Millisecond, cuts)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- tap.serve(ctx) }()
		text := strings.Repeat("0123456789", 500_000)
		conn, err := net.Dial("tcp", tap.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			io.WriteString(conn, text)
			conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		switch {
		case !strings.HasPrefix(text, string(got)):
			t.Errorf("cut %v: %d octets came back changed", cuts, len(got))
		case !cuts && (err != nil || len(got) < len(text)):
			t.Errorf("%d octets came back, and %v", len(got), err)
		case cuts && (len(got) == len(text) || tap.counts.broken() != 1): // five million octets pass in one of exp(24) cases
			t.Errorf("nothing was cut: %d octets came back", len(got))
		}
		conn.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
