package report

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/mail"
)

// Return reports the failure of some recipients of a message that never came into the spool, because
// it was refused when whoever had left it was gone. Of the envelope, Sender, EnvID, Ret, Size and Arrived count. Of
// content, which may be only its beginning, a report returns what one about a message in the spool would, but
// all of it unless RET=HDRS was asked for: there is no other copy.
//
// It returns the messages that it made, which are durable, and whether they have all of
// the content. There are none if no report is owed: the sender is null, or wants no reports. After an error there may
// be some; what they say is said again if Return is called again.
func (r *Reporter) Return(ctx context.Context, env mail.Envelope, failed iter.Seq2[mail.RecipientOutcome, error], content io.Reader) (arrivals []mail.Arrival, whole bool, err error) {
	if env.Sender == "" {
		return nil, false, nil
	}
	original, err := dsn.ReadOriginal(content, env.Ret != mail.RetHeaders && env.Size <= int64(r.cfg.ReturnMax), r.cfg.ReturnMax)
	if err != nil {
		return nil, false, err
	}
	p := &payment{Reporter: r, env: env, how: r.cfg.VERP(), arrived: func(a mail.Arrival) { arrivals = append(arrivals, a) }, outside: true, originals: [2]*dsn.Original{&original, &original}}
	for ro, err := range failed {
		if err != nil {
			return arrivals, false, fmt.Errorf("report on mail of %s: %w", env.Sender, err)
		}
		if err := p.add(ctx, ro); err != nil {
			return arrivals, false, err
		}
	}
	err = p.flush(ctx, &p.failures)
	return arrivals, err == nil && len(arrivals) > 0 && original.Part == dsn.PartMessage, err
}
