package logging

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// pieces are what texts are made of in the comparison with slog.TextHandler.
var pieces = []string{"", "a", "<x@y.test>", " ", "=", `"`, `\`, "\n", "\x00", "\x7f", "\x80", "\xff", "\u00e9", "\u00a0", "\u2028", "\ufffd", "\U0010ffff", "250 2.0.0 taken", "&<>'"}

// asSlog returns the line of slog.TextHandler or slog.JSONHandler, with durations as numbers of seconds.
func asSlog(asJSON bool, at time.Time, level slog.Level, message string, attrs []slog.Attr) string {
	var out strings.Builder
	r := slog.NewRecord(at, level, message, 0)
	r.AddAttrs(attrs...)
	options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: logline.Replace(asJSON)}
	if asJSON {
		slog.NewJSONHandler(&out, options).Handle(context.Background(), r)
	} else {
		slog.NewTextHandler(&out, options).Handle(context.Background(), r)
	}
	return out.String()
}

// written returns the line of a logger of this package.
func written(at time.Time, level slog.Level, message string, attrs []slog.Attr) string {
	var out bytes.Buffer
	log, closeLog := New(&out, slog.LevelDebug, false)
	log.Handler().(logline.Writer).WriteLine(at, level, message, attrs)
	closeLog()
	return out.String()
}

// Lines are the same as those of log/slog's handlers, whatever is in them: people and programs read
// them.
//
// Seen failing: without quotation marks for "=", for a no-break space, for an empty text.
func TestLinesAreThoseOfSlog(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() (s string) {
		for range r.IntN(4) {
			s += pieces[r.IntN(len(pieces))]
		}
		return s
	}
	var attr func() slog.Attr
	attr = func() slog.Attr {
		switch r.IntN(17) {
		case 0:
			return slog.Int(text(), int(r.Int64()))
		case 1:
			return slog.Uint64(text(), r.Uint64())
		case 2:
			return slog.Bool(text(), r.IntN(2) == 0)
		case 3:
			return slog.Attr{}
		case 4:
			return slog.Any(text(), nil)
		case 5:
			return slog.Duration(text(), time.Duration(r.Int64()))
		case 6:
			return slog.Group("", attr(), attr())
		case 7:
			return slog.Group(text(), attr())
		case 8:
			return slog.Any(text(), io.EOF)
		case 9:
			return slog.Time(text(), time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC())
		case 10:
			return slog.Any(text(), &logline.Delays{time.Duration(r.Int64N(1e12)), time.Duration(r.Int64N(1e6)), 0})
		case 11:
			return slog.Float64(text(), math.Exp(r.Float64()*200-100))
		case 12:
			return slog.Duration(text(), time.Duration(r.Int64N(1e11)))
		}
		return slog.String(text(), text())
	}
	written := 0
	for range 3000 {
		at := time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).In(time.FixedZone("", r.IntN(28*3600)-14*3600))
		level, message := slog.Level(r.IntN(20)-6), text()
		var attrs []slog.Attr
		for range r.IntN(6) {
			attrs = append(attrs, attr())
		}
		got, ok := appendLine(nil, at, level, message, attrs)
		if want := asSlog(false, at, level, message, attrs); ok && string(got) != want {
			t.Fatalf("got  %swant %s", got, want)
		}
		if got, ok = appendJSONLine(nil, at, level, message, attrs); !ok {
			continue
		}
		written++
		if want := asSlog(true, at, level, message, attrs); string(got) != want {
			t.Fatalf("got  %swant %s", got, want)
		}
	}
	if written < 1000 {
		t.Errorf("only %d of 3000 lines of JSON were not left to slog", written)
	}
}

// Durations are numbers of seconds in both forms, and the parts of a delay as well: those who search for text find the digits that
// Postfix writes, and programs need not parse.
//
// Seen failing: in JSON, delay was a text, delays were one text for three numbers, and other durations were nanoseconds.
func TestDurationsAreSeconds(t *testing.T) {
	at := time.Unix(1, 5e8).UTC()
	attrs := []slog.Attr{slog.Duration("delay", 12345678*time.Nanosecond), slog.Any("delays", &logline.Delays{time.Minute, 1500 * time.Microsecond, 0}), slog.Duration("within", time.Hour)}
	for _, asJSON := range []bool{false, true} {
		want := "time=1970-01-01T00:00:01.500Z level=INFO msg=delivery delay=0.012 delays=60/0.0015/0.0000 within=3600\n"
		if asJSON {
			want = `{"time":"1970-01-01T00:00:01.5Z","level":"INFO","msg":"delivery","delay":0.012346,"delays":[60,0.0015,0],"within":3600}` + "\n"
		}
		var out bytes.Buffer
		log, closeLog := New(&out, slog.LevelInfo, asJSON)
		log.Handler().(logline.Writer).WriteLine(at, slog.LevelInfo, "delivery", attrs)
		r := slog.NewRecord(at, slog.LevelInfo, "delivery", 0)
		r.AddAttrs(attrs...)
		log.Handler().Handle(t.Context(), r)
		if closeLog(); out.String() != want+want {
			t.Errorf("got  %swant %s twice", out.String(), want)
		}
	}
}

// A kind of attribute that is written by slog, an error, and the loggers made by With and
// WithGroup come out as they would without logline.
func TestLinesThatSlogWrites(t *testing.T) {
	at := time.Unix(1, 0).UTC()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelError} {
		attrs := []slog.Attr{slog.String("a", "b"), slog.Duration("c", time.Second)}
		if got, want := written(at, level, "m", attrs), asSlog(false, at, level, "m", attrs); got != want {
			t.Errorf("got %swant %s", got, want)
		}
	}
	var out bytes.Buffer
	log, closeLog := New(&out, slog.LevelInfo, false)
	logline.Log(log.With("a", 1).WithGroup("g"), slog.LevelInfo, "m", slog.Int("b", 2))
	logline.Log(log, slog.LevelDebug, "not this")
	closeLog()
	fire := &slowLog{}
	log, closeFire := New(fire, slog.LevelInfo, false)
	if logline.Log(log, slog.LevelError, "fire"); !fire.has("fire") {
		t.Error("an error is not written at once")
	}
	closeFire()
	if got := out.String(); !strings.HasSuffix(got, " level=INFO msg=m a=1 g.b=2\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %s", got)
	}
}

func FuzzText(f *testing.F) {
	for _, p := range append(pieces, "\b\f\v\x00\x1f\x7f") {
		f.Add(p)
	}
	at := time.Unix(1, 0).UTC()
	f.Fuzz(func(t *testing.T, text string) {
		attrs := []slog.Attr{slog.String(text, text)}
		got, _ := appendLine(nil, at, slog.LevelInfo, text, attrs)
		if want := asSlog(false, at, slog.LevelInfo, text, attrs); string(got) != want {
			t.Errorf("got  %swant %s", got, want)
		}
		got, _ = appendJSONLine(nil, at, slog.LevelInfo, text, attrs)
		if want := asSlog(true, at, slog.LevelInfo, text, attrs); string(got) != want {
			t.Errorf("got  %swant %s", got, want)
		}
	})
}

// A line as there is one for each recipient: about a third of what LogAttrs takes, and no
// allocation.
func BenchmarkLine(b *testing.B) {
	log, closeLog := New(io.Discard, slog.LevelInfo, false)
	defer closeLog()
	delays := logline.Delays{48 * time.Millisecond, 47 * time.Millisecond, 5100 * time.Microsecond}
	attrs := func() [12]slog.Attr {
		return [...]slog.Attr{slog.String("id", "6C3XB0E774000"), slog.String("from", "sender@loadgen.test"), slog.String("to", "m6.r0@d1.test"),
			slog.String("transport", "smtp"), slog.String("nexthop", "[127.0.1.1]:2626"), slog.String("host", "[127.0.1.1]:2626"),
			slog.String("status", "sent"), slog.Duration("delay", 100*time.Millisecond), slog.Any("delays", &delays), slog.Int("attempt", 1),
			slog.String("reply", "250 2.0.0 taken"), slog.String("tls", "TLS 1.3 TLS_AES_128_GCM_SHA256 verified")}
	}
	b.Run("logline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a := attrs()
			logline.Log(log, slog.LevelInfo, "delivery", a[:]...)
		}
	})
	b.Run("json", func(b *testing.B) {
		log, closeLog := New(io.Discard, slog.LevelInfo, true)
		defer closeLog()
		b.ReportAllocs()
		for b.Loop() {
			a := attrs()
			logline.Log(log, slog.LevelInfo, "delivery", a[:]...)
		}
	})
	b.Run("slog", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a := attrs()
			log.LogAttrs(context.Background(), slog.LevelInfo, "delivery", a[:]...)
		}
	})
}
