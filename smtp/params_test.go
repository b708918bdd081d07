package smtp

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

func TestParseMail(t *testing.T) {
	for _, test := range []struct {
		arg   string
		want  Mail
		fault Fault
	}{
		{arg: "FROM:<>"},
		{arg: "from: <a@b.example>", want: Mail{Sender: "a@b.example"}},
		{arg: "FROM:<a@b.example> size=10 body=8bitmime smtputf8 ret=full envid=x",
			want: Mail{Sender: "a@b.example", Size: 10, Body: mail.Body8BitMIME, SMTPUTF8: true, Ret: mail.RetFull, EnvID: "x"}},
		{arg: "FROM:<é@b.example> SMTPUTF8", want: Mail{Sender: "é@b.example", NonASCII: true, SMTPUTF8: true}},
		{arg: "FROM:<> SIZE=0 BODY=7BIT RET=HDRS", want: Mail{Ret: mail.RetHeaders}},
		{arg: "FROM:<> SIZE=9223372036854775807", want: Mail{Size: 1<<63 - 1}},
		{arg: "FROM:<> SIZE=9223372036854775808", fault: FaultSizeRange},
		{arg: "FROM:<> SIZE=99999999999999999999", fault: FaultSizeRange},
		{arg: "FROM:<> SIZE=100000000000000000000", fault: FaultParamValue},
		{arg: "FROM:<> SIZE", fault: FaultParamValue},
		{arg: "FROM:<> SIZE=1 size=1", fault: FaultParamTwice},
		{arg: "FROM:<> BODY=7BIT BODY=7BIT", fault: FaultParamTwice},
		{arg: "FROM:<> SMTPUTF8 SMTPUTF8", fault: FaultParamTwice},
		{arg: "FROM:<> RET=FULL RET=FULL", fault: FaultParamTwice},
		{arg: "FROM:<> ENVID=a ENVID=a", fault: FaultParamTwice},
		{arg: "FROM:<> BODY=8BIT", fault: FaultParamValue},
		{arg: "FROM:<> BODY=BINARYMIME", fault: FaultParamUnknown},
		{arg: "FROM:<> ENVID", fault: FaultParamValue},
		{arg: "FROM:<> ENVID=" + strings.Repeat("x", 100), want: Mail{EnvID: strings.Repeat("x", 100)}},
		{arg: "FROM:<> ENVID=" + strings.Repeat("x", 101), fault: FaultParamValue},
		{arg: "FROM:<> ENVID=a+2", fault: FaultParamValue},
		{arg: "FROM:<> MT-PRIORITY=9", want: Mail{Priority: 9, Prioritized: true}},
		{arg: "FROM:<> mt-priority=-9", want: Mail{Priority: -9, Prioritized: true}},
		{arg: "FROM:<> MT-PRIORITY=0", want: Mail{Prioritized: true}},
		{arg: "FROM:<> MT-PRIORITY=10", fault: FaultParamValue},
		{arg: "FROM:<> MT-PRIORITY=+1", fault: FaultParamValue},
		{arg: "FROM:<> MT-PRIORITY=-0", fault: FaultParamValue},
		{arg: "FROM:<> MT-PRIORITY=-", fault: FaultParamValue},
		{arg: "FROM:<> MT-PRIORITY", fault: FaultParamValue},
		{arg: "FROM:<> MT-PRIORITY=1 MT-PRIORITY=1", fault: FaultParamTwice},
		{arg: "FROM:<> -X=1", fault: FaultParamSyntax},
		{arg: "FROM:<> X_Y=1", fault: FaultParamSyntax},
		{arg: "FROM:<> X-1", fault: FaultParamUnknown},
		{arg: "FROM:<> requiretls SIZE=1", want: Mail{RequireTLS: true, Size: 1}},
		{arg: "FROM:<> REQUIRETLS=YES", fault: FaultParamValue},
		{arg: "FROM:<> REQUIRETLS REQUIRETLS", fault: FaultParamTwice},
		{arg: "FROM:<a@b.example> xverp", want: Mail{Sender: "a@b.example", XVERP: true}},
		{arg: "FROM:<a@b.example> XVERP=+= SIZE=1", want: Mail{Sender: "a@b.example", XVERP: true, VERP: "+=", Size: 1}},
		{arg: "FROM:<a@b.example> XVERP===", want: Mail{Sender: "a@b.example", XVERP: true, VERP: "=="}},
		{arg: "FROM:<a@b.example> XVERP=", fault: FaultParamSyntax},
		{arg: "FROM:<a@b.example> XVERP XVERP=-=", fault: FaultParamTwice},
		{arg: "FROM:<> by=120;rt SIZE=1", want: Mail{By: By{2 * time.Minute, mail.ByReturn, true}, Size: 1}},
		{arg: "FROM:<> BY=-1;N", want: Mail{By: By{-time.Second, mail.ByNotify, false}}},
		{arg: "FROM:<> BY=0;R", fault: FaultParamValue},
		{arg: "FROM:<> BY", fault: FaultParamValue},
		{arg: "FROM:<> BY=1;N BY=1;N", fault: FaultParamTwice},
		{arg: "FROM:<> NOTIFY=NEVER", fault: FaultParamUnknown},
		{arg: "FROM:<postmaster>", fault: FaultDomain},
		{arg: "TO:<a@b.example>", fault: FaultKeyword},
		{arg: "FROM", fault: FaultKeyword},
		{arg: "FROM:<a@b.example>\tSIZE=1", fault: FaultBrackets},
	} {
		got, f := ParseMail([]byte(test.arg), PathRules{})
		if f != test.fault || f == FaultNone && got != test.want {
			t.Errorf("%q: %+v, fault %d; want %+v, fault %d", test.arg, got, f, test.want, test.fault)
		}
	}
}

func TestParseRcpt(t *testing.T) {
	for _, test := range []struct {
		arg   string
		utf8  bool
		want  mail.Recipient
		fault Fault
	}{
		{arg: "TO:<a@b.example>", want: mail.Recipient{Address: "a@b.example"}},
		{arg: "TO:<Postmaster>", want: mail.Recipient{Address: "postmaster"}},
		{arg: "TO:<a@b.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;x",
			want: mail.Recipient{Address: "a@b.example", Notify: mail.NotifySuccess | mail.NotifyFailure | mail.NotifyDelay, ORcpt: "rfc822;x"}},
		{arg: "TO:<é@b.example>", utf8: true, want: mail.Recipient{Address: "é@b.example"}},
		{arg: "TO:<é@b.example>", fault: FaultNotUTF8},
		{arg: "TO:<a@b.example> ORCPT=utf-8;é", utf8: true, want: mail.Recipient{Address: "a@b.example", ORcpt: "utf-8;é"}},
		{arg: "TO:<a@b.example> ORCPT=utf-8;é", fault: FaultParamValue},
		{arg: `TO:<a@b.example> ORCPT=UTF-8;\x{E9}`, want: mail.Recipient{Address: "a@b.example", ORcpt: `UTF-8;\x{E9}`}},
		{arg: "TO:<>", fault: FaultNull},
		{arg: "TO:<a@b.example> NOTIFY=", fault: FaultParamSyntax},
		{arg: "TO:<a@b.example> NOTIFY", fault: FaultParamValue},
		{arg: "TO:<a@b.example> NOTIFY=NEVER,DELAY", fault: FaultParamValue},
		{arg: "TO:<a@b.example> NOTIFY=DELAY,", fault: FaultParamValue},
		{arg: "TO:<a@b.example> NOTIFY=SUCCESS,FAILURE,DELAY,SUCCESS", fault: FaultParamValue},
		{arg: "TO:<a@b.example> NOTIFY=NEVER NOTIFY=NEVER", fault: FaultParamTwice},
		{arg: "TO:<a@b.example> ORCPT=;x", fault: FaultParamValue},
		{arg: "TO:<a@b.example> ORCPT=rfc822;", fault: FaultParamValue},
		{arg: "TO:<a@b.example> ORCPT=rfc(822;x", fault: FaultParamValue},
		{arg: "TO:<a@b.example> ORCPT=rfc822;x ORCPT=rfc822;x", fault: FaultParamTwice},
		{arg: "TO:<a@b.example> RET=FULL", fault: FaultParamUnknown},
		{arg: "FROM:<a@b.example>", fault: FaultKeyword},
	} {
		got, f := ParseRcpt([]byte(test.arg), PathRules{}, test.utf8)
		if f != test.fault || f == FaultNone && got.Recipient != test.want {
			t.Errorf("%q: %+v, fault %d; want %+v, fault %d", test.arg, got.Recipient, f, test.want, test.fault)
		}
	}
}

// What RFC 2920 3.1 allows anywhere in a group, and what must be its last.
func TestEndsGroup(t *testing.T) {
	for v, want := range map[Verb]bool{
		VerbMAIL: false, VerbRCPT: false, VerbRSET: false, VerbBDAT: false,
		VerbEHLO: true, VerbHELO: true, VerbDATA: true, VerbVRFY: true, VerbEXPN: true, VerbNOOP: true, VerbQUIT: true, VerbSTARTTLS: true, VerbAUTH: true,
		VerbETRN: true, // RFC 1985 does not allow more
	} {
		if got := v.EndsGroup(); got != want {
			t.Errorf("verb %d: %t", v, got)
		}
	}
}
