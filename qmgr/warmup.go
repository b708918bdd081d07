package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// adjustWarmup carries out an operator's order about a warm-up.
func (q *Qmgr) adjustWarmup(o warmup.Order) {
	text := o.String()
	if err := q.warmup.Obey(o, q.now); err != nil {
		text += ": " + err.Error()
	}
	q.emit(Note{Kind: NoteWarmup, Text: text})
}

// Warmup returns where a source is in its warm-up, with at most most of its sites: those
// with the most messages today. It reports whether the source is warmed up. It takes time in
// proportion to the source's sites.
func (q *Qmgr) Warmup(source string, most int) (warmup.SourceView, bool) {
	return q.warmup.View(source, most, q.now)
}

// WarmupSite returns where one site is in a source's warm-up. It reports whether the source
// is warmed up.
func (q *Qmgr) WarmupSite(source, site string) (warmup.SiteView, bool) {
	return q.warmup.SiteView(warmup.Key{Source: source, Site: site}, q.now)
}

// learnedWarmups takes what was known of warm-ups before the last stop. What cannot be read is
// skipped: the site begins again.
func (q *Qmgr) learnedWarmups(records []mail.HostRecord) {
	var known []warmup.Known
	for _, r := range records {
		if !warmup.IsKey(r.Key) {
			continue
		}
		key, err := warmup.ParseKey(r.Key)
		if err != nil {
			continue
		}
		record, err := warmup.ParseRecord(r.Value)
		if err != nil {
			continue
		}
		known = append(known, warmup.Known{Key: key, Record: record})
	}
	q.warmup.Load(known, q.now)
}
