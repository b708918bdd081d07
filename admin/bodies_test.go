package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
)

// A pipeListener accepts the connections sent to its channel.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}
func (l pipeListener) Close() error   { close(l.ended); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// serveOne sends a request over a new connection and returns the answer and the time
// that it took; the test runs in a bubble.
func serveOne(t *testing.T, q *admintest.Queue, cfg admin.Config, request string) (status int, body string, took time.Duration) {
	t.Helper()
	s, err := admin.New(cfg, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	ln := pipeListener{make(chan net.Conn), make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, ln) }()
	ours, theirs := net.Pipe()
	ln.conns <- theirs
	began := time.Now()
	go io.WriteString(ours, request) //nolint:errcheck // what is not read any more is not written
	ours.SetReadDeadline(began.Add(time.Hour))
	answer, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err == nil {
		octets, _ := io.ReadAll(answer.Body)
		status, body = answer.StatusCode, string(octets)
	}
	took = time.Since(began)
	ours.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	return status, body, took
}

// The body of a request, even one that never arrives, occupies a connection of the API
// for seconds at most, whatever the request; and a request that takes no body is
// refused if it has one.
//
// Seen failing: no answer within an hour to the GET, and all mail was flushed.
func TestBodies(t *testing.T) {
	hold := "POST /v1/messages/hold HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		request string
		want    int
	}{
		{"GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", 422},
		{"POST /v1/flush HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n" + `{"filter":{"domain":"x.y"}}`, 422},
		{"POST /v1/flush HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n", 422},
		{"POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", 408},
		{hold + "Content-Length: 100\r\n\r\n{", 408},
		{hold + "Content-Length: 100000000\r\n\r\n" + strings.Repeat(" ", 300<<10), 413},
		{hold + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat(" ", 4096)+"\r\n", 80), 413},
		{hold + "Content-Length: 12\r\n\r\n" + `{"all":true}`, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"))
			status, body, took := serveOne(t, q, admin.Config{}, c.request)
			if _, flushes := q.Retried(); status != c.want || took > 6*time.Second || flushes > 0 {
				t.Errorf("%.60q: %d %s after %v, %d flushes", c.request, status, body, took, flushes)
			}
		})
	}
}

// The deadline of the body does not limit the order.
//
// Seen failing: 503 after five seconds, though the order was carried out.
func TestOrderThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := message(1, mail.AreaDeferred, "a@b", "j@c")
		m.Busy = true
		order := fmt.Sprintf(`{"filter":{"ids":[%q]}}`, id(1))
		status, body, took := serveOne(t, admintest.New(m), admin.Config{Settle: 20 * time.Second},
			fmt.Sprintf("POST /v1/messages/hold HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(order), order))
		if status != 200 || !strings.Contains(body, `"pending":1`) || took < 15*time.Second {
			t.Errorf("%d %s after %v", status, body, took)
		}
	})
}
