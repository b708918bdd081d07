package tlsrpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A PolicyType is the kind of a policy (RFC 8460 4.2).
type PolicyType string

const (
	TLSA     PolicyType = "tlsa"
	STS      PolicyType = "sts"
	NoPolicy PolicyType = "no-policy-found"
)

// A Result is the kind of a failure (RFC 8460 4.3).
type Result string

const (
	StartTLSNotSupported    Result = "starttls-not-supported"
	CertificateHostMismatch Result = "certificate-host-mismatch"
	CertificateExpired      Result = "certificate-expired"
	CertificateNotTrusted   Result = "certificate-not-trusted"
	ValidationFailure       Result = "validation-failure" // any other
	TLSAInvalid             Result = "tlsa-invalid"
	DNSSECInvalid           Result = "dnssec-invalid"
	DANERequired            Result = "dane-required"
	STSPolicyFetchError     Result = "sts-policy-fetch-error"
	STSPolicyInvalid        Result = "sts-policy-invalid"
	STSWebPKIInvalid        Result = "sts-webpki-invalid"
)

var results = [...]Result{
	StartTLSNotSupported, CertificateHostMismatch, CertificateExpired, CertificateNotTrusted, ValidationFailure,
	TLSAInvalid, DNSSECInvalid, DANERequired, STSPolicyFetchError, STSPolicyInvalid, STSWebPKIInvalid,
}

// A Policy is a policy as it was applied.
type Policy struct {
	Type   PolicyType `json:"policy-type"`
	Text   []string   `json:"policy-string,omitempty"` // the lines of an MTA-STS policy, or the TLSA records
	Domain string     `json:"policy-domain"`           // of the mail, or of the TLSA records
	MX     []string   `json:"mx-host,omitempty"`       // the patterns of an MTA-STS policy
}

// A Failure is a kind of failure and its place. Unknown fields are empty.
type Failure struct {
	Result     Result `json:"result-type"`
	SendingIP  string `json:"sending-mta-ip,omitempty"`
	MX         string `json:"receiving-mx-hostname,omitempty"`
	HELO       string `json:"receiving-mx-helo,omitempty"`
	Receiving  string `json:"receiving-ip,omitempty"`
	Sessions   uint64 `json:"failed-session-count"`
	Further    string `json:"additional-information,omitempty"` // a URI
	ReasonCode string `json:"failure-reason-code,omitempty"`
}

// A Summary is the number of sessions under a policy.
type Summary struct {
	Successful uint64 `json:"total-successful-session-count"`
	Failed     uint64 `json:"total-failure-session-count"`
}

// A Section is the part of a report about one policy.
type Section struct {
	Policy   Policy    `json:"policy"`
	Summary  Summary   `json:"summary"`
	Failures []Failure `json:"failure-details,omitempty"`
}

// A Range is the time of a report.
type Range struct {
	Start time.Time `json:"start-datetime"`
	End   time.Time `json:"end-datetime"`
}

// A Report is about one domain and one day (RFC 8460 4.4).
type Report struct {
	Organization string    `json:"organization-name"`
	Range        Range     `json:"date-range"`
	Contact      string    `json:"contact-info"`
	ID           string    `json:"report-id"`
	Sections     []Section `json:"policies"`
}

// JSON returns the report as it is sent, before compression.
func (r Report) JSON() ([]byte, error) { return json.Marshal(r) }

// A Day is a UTC day, counted from 1970-01-01.
type Day int64

const secondsOfDay = 24 * 60 * 60

// DayOf returns the day of a time after 1970.
func DayOf(t time.Time) Day { return Day(t.Unix() / secondsOfDay) }

// Range returns the first and last second of the day.
func (d Day) Range() Range {
	start := time.Unix(int64(d)*secondsOfDay, 0).UTC()
	return Range{start, start.Add(secondsOfDay*time.Second - time.Second)}
}

// String returns the day as "2026-11-23".
func (d Day) String() string { return d.Range().Start.Format(time.DateOnly) }

// sectionsMax is the maximum number of octets of sections that ParseSections reads.
const sectionsMax = 64 << 20

// ErrSections is the error of ParseSections, with a reason.
var ErrSections = errors.New("tlsrpt: malformed sections")

// ParseSections parses the JSON of sections, as a Book's user has kept them.
func ParseSections(text []byte) ([]Section, error) {
	if len(text) > sectionsMax {
		return nil, fmt.Errorf("%w: more than %d octets", ErrSections, sectionsMax)
	}
	var list []Section
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSections, err)
	}
	for _, s := range list {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSections, err)
		}
	}
	return list, nil
}

// check returns an error if a section's words are not those of RFC 8460, or its sums are
// wrong.
func (s *Section) check() error {
	switch s.Policy.Type {
	case TLSA, STS, NoPolicy:
	default:
		return fmt.Errorf("policy type %.40q", s.Policy.Type)
	}
	if s.Policy.Domain == "" {
		return errors.New("no policy domain")
	}
	var failed uint64
	for _, f := range s.Failures {
		if !f.Result.known() {
			return fmt.Errorf("result type %.40q", f.Result)
		}
		failed += f.Sessions
	}
	if failed != s.Summary.Failed {
		return fmt.Errorf("%d failures in the summary and %d in the details", s.Summary.Failed, failed)
	}
	return nil
}

func (r Result) known() bool {
	for _, k := range results {
		if r == k {
			return true
		}
	}
	return false
}
