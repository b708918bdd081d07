package driver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

func attemptAt(id mail.QueueID, n int, outcomes ...mail.Outcome) (*mail.Delivery, *mail.DeliveryResult) {
	d := &mail.Delivery{Source: "src", Envelope: mail.Envelope{ID: id, Attempts: uint32(n)}}
	for i := range outcomes {
		d.Recipients = append(d.Recipients, mail.Recipient{Address: mail.Address(fmt.Sprintf("r%d@d.test", i))})
	}
	return d, &mail.DeliveryResult{Host: "mx", Outcomes: outcomes}
}

// Attempts are remembered by message in their order; of recipients with one reply the first is named and others are counted, and who has the
// message is not there.
func TestJournal(t *testing.T) {
	var j journal
	busy := mail.Reply{Code: 451, Text: strings.Repeat("x", 2000) + "\n" + strings.Repeat("y", 2000)}
	gone := mail.Reply{Code: 550, Text: "gone"}
	now := time.Now()
	d, r := attemptAt(1, 0, mail.Outcome{Result: mail.Deferred, Reply: busy, Stage: mail.StageRcpt}, mail.Outcome{Result: mail.Deferred, Reply: busy, Stage: mail.StageRcpt},
		mail.Outcome{Result: mail.Delivered}, mail.Outcome{Result: mail.Failed, Reply: gone, Stage: mail.StageRcpt})
	j.note(d, r, now)
	var other journal
	same, stages := attemptAt(1, 0, mail.Outcome{Result: mail.Failed, Reply: gone, Stage: mail.StageRcpt}, mail.Outcome{Result: mail.Failed, Reply: gone, Stage: mail.StageData})
	if other.note(same, stages, now); len(other.of(1)) != 2 {
		t.Errorf("one attempt has two stages: %+v", other.of(1))
	}
	d, r = attemptAt(2, 0, mail.Outcome{Result: mail.Delivered})
	j.note(d, r, now)
	d, r = attemptAt(1, 1, mail.Outcome{Result: mail.Deferred, Reply: gone, Stage: mail.StageData})
	j.note(d, r, now.Add(time.Minute))
	all := j.of(1)
	if len(all) != 3 || len(j.of(2)) != 0 || len(j.of(3)) != 0 {
		t.Fatalf("%+v", all)
	}
	want := Attempt{At: now, Number: 1, Result: mail.Deferred, Host: "mx", Source: "src", Stage: mail.StageRcpt, Reply: busy.Lines(), First: "r0@d.test", More: 1}
	if all[0] != want {
		t.Errorf("got %+v, want %+v", all[0], want)
	}
	want = Attempt{At: now, Number: 1, Result: mail.Failed, Host: "mx", Source: "src", Stage: mail.StageRcpt, Reply: gone.Lines(), First: "r3@d.test"}
	if all[1] != want || all[2].Number != 2 || all[2].Stage != mail.StageData {
		t.Errorf("got %+v", all[1:])
	}
}

// The journal keeps the last attempts, whatever their messages, and forgets messages whose attempts it has dropped. Its twin is a list
// of all attempts.
func TestJournalIsBounded(t *testing.T) {
	fill(t, 3, 7)
	fill(t, 1, 5) // attempts at a message take the places of earlier ones at it
}

func fill(t *testing.T, share, messages int) {
	var j journal
	type seen struct {
		id mail.QueueID
		n  int
	}
	var list []seen
	for i := range 3*journalMax + 17 {
		id := mail.QueueID(1 + i%messages)
		if i%share > 0 {
			id = mail.QueueID(1000 + i)
		}
		d, r := attemptAt(id, i, mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 451}})
		j.note(d, r, time.Time{})
		list = append(list, seen{id, i + 1})
	}
	list = list[len(list)-journalMax:]
	want := make(map[mail.QueueID][]int)
	for _, s := range list {
		want[s.id] = append(want[s.id], s.n)
	}
	if j.next-j.first != journalMax || len(j.ring) != journalMax || len(j.last) != len(want) {
		t.Fatalf("%d attempts of %d messages, want %d of %d", j.next-j.first, len(j.last), journalMax, len(want))
	}
	for id, numbers := range want {
		var got []int
		for _, a := range j.of(id) {
			got = append(got, a.Number)
		}
		if fmt.Sprint(got) != fmt.Sprint(numbers) {
			t.Fatalf("%d: got %v, want %v", id, got, numbers)
		}
	}
}

// A receiver refuses everything with replies of 4 KB. They are kept whole, and fewer of them.
//
// Seen failing: a reply was cut to 500 octets, which kept all of it in memory: 43 MB.
func TestJournalOfLongReplies(t *testing.T) {
	var j journal
	long := strings.Repeat("x", mail.ReplyTextMax)
	for i := range journalMax {
		d, r := attemptAt(mail.QueueID(1+i%100), i, mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 451, Text: long}})
		j.note(d, r, time.Time{})
	}
	kept := 0
	for id := range 100 {
		all := j.of(mail.QueueID(1 + id))
		for i, a := range all {
			if kept++; a.Reply != "451 "+long || a.Number != journalMax-len(all)*100+i*100+id+1 {
				t.Fatalf("message %d has attempt %d with a reply of %d octets", 1+id, a.Number, len(a.Reply))
			}
		}
	}
	if want := journalTextMax / (len(long) + len("451 mx r0@d.test") - 1); kept != want || j.text > journalTextMax || len(j.last) != 100 {
		t.Errorf("%d attempts with %d octets of %d messages, want %d", kept, j.text, len(j.last), want)
	}
	d, r := attemptAt(7, 0, mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 451, Text: "ok"}})
	for range journalMax {
		j.note(d, r, time.Time{})
	}
	if all := j.of(7); len(all) != journalMax || len(j.last) != 1 || j.text != journalMax*len("451 ok"+"mx"+"r0@d.test") {
		t.Errorf("%d attempts of %d messages with %d octets", len(all), len(j.last), j.text)
	}
}

// BenchmarkJournal measures the memory of a full journal.
func BenchmarkJournal(b *testing.B) {
	for _, octets := range []int{80, mail.ReplyTextMax} {
		b.Run(fmt.Sprint(octets), func(b *testing.B) {
			var before, after runtime.MemStats
			var j journal
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range max(b.N, journalMax) {
				d, r := attemptAt(mail.QueueID(i+1), 0, mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 451, Text: strings.Repeat("x", octets-5) + fmt.Sprintf("%05d", i%100000)}})
				j.note(d, r, time.Time{})
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
			b.ReportMetric(float64(j.next-j.first), "attempts")
			runtime.KeepAlive(&j)
		})
	}
}
