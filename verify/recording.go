package verify

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// A recording is a trace file; the fields are described where the traces are
// made.
type recording struct {
	Parameters struct {
		QueueManager map[string]json.Number                `json:"queue_manager"`
		Transports   map[string]map[string]json.RawMessage `json:"transports"`
	} `json:"parameters"`
	Messages    []recordedMessage   `json:"messages"`
	Order       []decision          `json:"order"`
	Events      []recordedEvent     `json:"events"`
	Preemptions []recordedPreempted `json:"preemptions"`
	Reads       []recordedRead      `json:"reads"`
	Allocations []string            `json:"transport_allocations"`
	Suspended   json.RawMessage     `json:"suspended"`
	Covered     *int                `json:"preemptions_before_decision"`

	Deferrals     []deferral `json:"deferrals"`
	Ends          []deferral `json:"ends"`
	QueueRuns     []int64    `json:"queue_runs"`
	ObservedUntil int64      `json:"observed_until"`

	Sent, Deferred int
}

type recordedMessage struct {
	ID          string          `json:"id"`
	EnqueueTime int64           `json:"enqueue_time"`
	Arrives     arrival         `json:"arrives"`
	Recipients  json.RawMessage `json:"recipients"`
	Results     json.RawMessage `json:"results"`
	Takes       int64           `json:"delivery_takes"`
	recipients  []recordedRecipient
}

type arrival struct {
	First bool `json:"before_first_selection"`
	After *int `json:"after_selections"`
}

type recordedRecipient struct {
	Address     string `json:"addr"`
	Destination string `json:"destination"`
	Transport   string `json:"transport"`
}

// A decision is one entry that was handed to an agent.
type decision struct {
	Message     string            `json:"message"`
	Destination string            `json:"destination"`
	Transport   string            `json:"transport"`
	Recipients  []string          `json:"recipients"`
	T           int64             `json:"t"`
	Results     map[string]string `json:"results"`
}

type recordedEvent struct {
	E         string       `json:"e"`
	I         int          `json:"i"`
	Result    string       `json:"result"`
	Message   string       `json:"message"`
	Transport string       `json:"transport"`
	After     *windowState `json:"after"`
}

// A windowState is what a destination has learned; six digits count.
type windowState struct {
	Limit         int     `json:"limit"`
	Window        int     `json:"window"`
	Success       float64 `json:"success"`
	Failure       float64 `json:"failure"`
	FailedCohorts float64 `json:"fail_cohorts"`
}

func (w *windowState) String() string {
	if w == nil {
		return "nothing"
	}
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	return fmt.Sprintf("limit %d window %d success %s failure %s cohorts %s", w.Limit, w.Window,
		short(w.Success), short(w.Failure), short(w.FailedCohorts))
}

type recordedPreempted struct {
	Decision int    `json:"decision"`
	Current  string `json:"current"`
	By       string `json:"by"`
	Level    int    `json:"level"`
}

type recordedRead struct {
	Decision int    `json:"decision"`
	Message  string `json:"message"`
	First    bool   `json:"first"`
	Limit    int    `json:"limit"`
}

// epoch is the second of virtual time that traces call 0: instant 0 would mean
// "not set".
const epoch = 1_000_000
