package saved

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// Known is what was saved, by the tables that have it.
type Known struct {
	Hosts    []destdb.Known
	Warmups  []warmup.Known
	Measures []measure.Known
	Orders   []measure.Known // operators', and those of rules that suspend
}

// Read returns what records say.
func Read(records []mail.HostRecord) (k Known) {
	for i := range records {
		switch r := &records[i]; {
		case measure.IsKey(r.Key):
			k.readMeasure(r)
		case warmup.IsKey(r.Key):
			key, err := warmup.ParseKey(r.Key)
			if err != nil {
				continue
			}
			if record, err := warmup.ParseRecord(r.Value); err == nil {
				k.Warmups = append(k.Warmups, warmup.Known{Key: key, Record: record})
			}
		default:
			key, err := destdb.ParseKey(r.Key)
			if err != nil {
				continue
			}
			if record, err := destdb.ParseRecord(r.Value); err == nil {
				k.Hosts = append(k.Hosts, destdb.Known{Key: key, Record: record})
			}
		}
	}
	return k
}

func (k *Known) readMeasure(r *mail.HostRecord) {
	key, err := measure.ParseKey(r.Key)
	if err != nil {
		return
	}
	record, err := measure.ParseRecord(r.Value)
	if err != nil {
		return
	}
	switch ordered := record.Order.Until != 0; {
	case ordered != (key.Scope != measure.Queue): // not ours
	case ordered:
		k.Orders = append(k.Orders, measure.Known{Key: key, Record: record})
	default:
		k.Measures = append(k.Measures, measure.Known{Key: key, Record: record})
	}
}
