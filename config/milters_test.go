package config

import (
	"net"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/milter"
)

// Which milters a listener has follows from its name, its purpose and the order of the file; local
// programs have those that are for them. A reload goes on with milters that have not changed.
func TestMilters(t *testing.T) {
	const text = `[[certificate]]
cert = "/c"
key = "/k"
[[listener]]
address = ":25"
name = "mx"
[[listener]]
address = ":587"
name = "submission"
purpose = "submission"
[[milter]]
name = "signer"
address = "unix:/run/signer"
purpose = ["submission", "submissions"]
non_smtpd = true
[[milter]]
address = "inet:8891@localhost"
listener = ["mx", "submission"]
on_failure = "accept"
[[milter]]
name = "all"
address = "[::1]:99"
`
	c := mustParse(t, text)
	set, known, err := c.MakeMilters(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for listener, want := range map[string]string{"mx": "inet:8891@localhost all", "submission": "signer inet:8891@localhost all", "": "signer"} {
		var names []string
		for _, m := range set.Listeners[listener].Milters {
			names = append(names, m.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q has %s, want %s", listener, got, want)
		}
	}
	if c.Milters[1].OnFailure != milter.FailAccept || c.Milters[1].dial().Address != "localhost:8891" || c.Milters[0].dial().Network != "unix" || c.Milters[2].dial().Address != "[::1]:99" {
		t.Errorf("%+v", c.Milters)
	}
	again, _, err := mustParse(t, strings.Replace(text, "accept", "reject", 1)).MakeMilters(nil, known)
	if err != nil {
		t.Fatal(err)
	}
	before, after := set.Listeners["submission"].Milters, again.Listeners["submission"].Milters
	if after[0] != before[0] || after[1] == before[1] || after[2] != before[2] {
		t.Error("the reload has not kept what is the same")
	}
	if set, _, err := mustParse(t, "").MakeMilters(nil, nil); set != nil || err != nil {
		t.Errorf("%v, %v", set, err)
	}
}

// Mistakes in milters are found when the file is read, and what cannot be reached when it is checked.
func TestMilterMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[[milter]]\nname = \"a\"\n":                                               "milter.a.address: this milter has no address",
		"[[milter]]\naddress = \"unix:run/x\"\n":                                   "the path must be absolute",
		"[[milter]]\naddress = \"inet:8891\"\n":                                    "is not the address of a milter",
		"[[milter]]\naddress = \"inet:h:1\"\nlistener = [\"submision\"]\n":         `there is no listener "submision"`,
		"[[milter]]\naddress = \"inet:h:1\"\nlistener = [\"submission_socket\"]\n": "set non_smtpd = true",
		"[[milter]]\naddress = \"inet:h:1\"\n[[milter]]\naddress = \"inet:h:1\"\n": "there is another milter of this name",
		"[[milter]]\naddress = \"inet:h:1\"\nmilter_default_action = \"accept\"\n": "unknown parameter",
	} {
		if _, err := Parse("x.toml", []byte(text), Environment{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := mustParse(t, "[[milter]]\naddress = \"inet:"+ln.Addr().String()+"\"\npurpose = [\"submission\"]\n[[milter]]\nname = \"gone\"\naddress = \"unix:"+t.TempDir()+"/none\"\n")
	if list := c.unreachableMilters(); len(list) != 1 || list[0].Key != "milter.gone.address" || list[0].Line != 6 || !strings.Contains(list[0].Message, `on_failure = "tempfail" decides`) {
		t.Errorf("%v", list)
	}
	if list := c.Warnings(); len(list) != 1 || !strings.Contains(list[0].Message, "it sees no mail") {
		t.Errorf("%v", list)
	}
}
