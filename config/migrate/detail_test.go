package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/internal/golden"
)

// of translates a main.cf and other files, which are found by the last part of their names.
func of(main string, files map[string]string, credentials string) *Result {
	in := Input{Credentials: credentials, Environment: config.Environment{Hostname: "host.example.com"}, Read: func(_ string, t maincf.Table) (string, string, error) {
		if text, ok := files[path.Base(t.Name)]; ok {
			return path.Base(t.Name), text, nil
		}
		return "", "", fs.ErrNotExist
	}}
	in.Main, in.Problems = maincf.ParseMain("main.cf", main)
	if master, ok := files["master.cf"]; ok {
		in.Services, _ = maincf.ParseMaster("master.cf", master)
	}
	return Translate(in)
}

// said returns all that a user sees of a result, but for the file of credentials.
func said(r *Result) string {
	text := r.TOML
	for _, one := range r.Remarks {
		text += strings.Join(one.At, "\n") + "\n" + one.Text + "\n"
	}
	return text
}

// Passwords are in the file of credentials and nowhere else, whatever way they got into Postfix's files.
func TestPasswordsAreNotShown(t *testing.T) {
	files := map[string]string{"passwd": "[a.example]:587 mia:Correct1Horse\nb.example joe:Battery2Staple\nbroken\n[a.example]:587 mia:Second3Secret\n[c.example jim:Fourth4Secret\n",
		"master.cf": "smtp inet n - n - - smtpd\nother unix - - n - - smtp -o smtp_sasl_password_maps=static:bob:Fifth5Secret -o { my_password = Sixth6Secret }\n"}
	for _, credentials := range []string{"", "/etc/posthaste/credentials.toml"} {
		r := of(`
relayhost = [a.example]:587
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = hash:/etc/postfix/passwd, inline:{ {[d.example]:587 = ann:Seventh7Secret}, nothing }, static:any:Eighth8Secret
ldap_bind_pw = Ninth9Secret
dbpass_word = other
api_token = Tenth10Secret
uses = the $ldap_bind_pw of ldap
smtpd_banner = $myhostname $ldap_bind_pw
smtp_helo_timeout = Ninth9Secret
`, files, credentials)
		shown := said(r)
		for _, secret := range []string{"Correct1Horse", "Battery2Staple", "Second3Secret", "Fourth4Secret", "Fifth5Secret", "Sixth6Secret", "Seventh7Secret", "Eighth8Secret", "Ninth9Secret", "Tenth10Secret"} {
			for line := range strings.Lines(shown) {
				if strings.Contains(line, secret) && !strings.HasPrefix(line, "smtpd_banner") {
					t.Errorf("credentials %q: %s", credentials, line)
				}
			}
		}
		r = of("relayhost = [a.example]:587\nsmtp_sasl_auth_enable = yes\nsmtp_sasl_password_maps = hash:/etc/postfix/passwd\n", files, credentials)
		if !strings.Contains(r.Credentials, `password = "Correct1Horse"`) || !strings.Contains(r.Credentials, `for = ["b.example"]`) || strings.Contains(r.Credentials, "Second3Secret") {
			t.Errorf("the file of credentials:\n%s", r.Credentials)
		}
		if has := strings.Contains(r.TOML, "credentials = "); has != (credentials != "") {
			t.Errorf("credentials %q: the result names a file of credentials: %v", credentials, has)
		}
	}
}

// Without TLS, as the configuration demands, a login is only of use if it may be sent so; and it is said.
func TestLoginWithoutTLS(t *testing.T) {
	main := "relayhost = [a.example]\nsmtp_sasl_auth_enable = yes\nsmtp_sasl_password_maps = inline:{[a.example]=mia:secret}\nsmtp_tls_security_level = none\nsmtp_sasl_security_options = "
	for options, clear := range map[string]bool{"noanonymous": true, "noplaintext, noanonymous": false, "": true} {
		r := of(main+options+"\n", nil, "/c")
		if !strings.Contains(r.Credentials, `tls = "optional"`) || strings.Contains(r.Credentials, "secret_in_clear = true") != clear {
			t.Errorf("%q:\n%s", options, r.Credentials)
		}
		if !slices.ContainsFunc(r.Remarks, func(one Remark) bool { return strings.HasPrefix(one.Text, "Passwords are used without TLS") }) {
			t.Errorf("%q: it is not said", options)
		}
	}
}

// A network without parts that are excluded covers exactly the other addresses.
func TestNetworksWithoutOthers(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	some := func() netip.Prefix {
		bits := 24 + random.IntN(9)
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(256))}), bits).Masked()
	}
	for range 200 {
		p, others := some(), []netip.Prefix{}
		for range random.IntN(4) {
			others = append(others, some())
		}
		parts := without(p, others)
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			in := func(n netip.Prefix) bool { return n.Contains(a) }
			want := p.Contains(a) && !slices.ContainsFunc(others, in)
			if got := slices.ContainsFunc(parts, in); got != want {
				t.Fatalf("%v without %v: %v: %v is %v", p, others, parts, a, got)
			}
		}
	}
}

// An exclusion counts only for what is behind it, as in Postfix, where the first match decides.
func TestExcludedNetworks(t *testing.T) {
	r := of("mynetworks = 10.0.0.0/31, !10.0.0.0, 10.0.0.0/30, !10.0.0.0/8, 10.9.0.0/16\n", nil, "")
	if want := `mynetworks = ["10.0.0.0/31", "10.0.0.1", "10.0.0.2/31"]`; !strings.Contains(r.TOML, want) {
		t.Errorf("%s is not in\n%s", want, r.TOML)
	}
}

func TestLowestTLS(t *testing.T) {
	for list, want := range map[string]string{
		"!SSLv2, !SSLv3": "1.0", "!SSLv2,!SSLv3,!TLSv1,!TLSv1.1": "1.2", ">=TLSv1.2": "1.2", ">=TLSv1.3": "1.3", "TLSv1.2": "1.2", "TLSv1.2, TLSv1.3": "1.2", "!TLSv1": "1.1",
		">=TLSv1.1, <=TLSv1.2": "1.1", "": "1.0", "SSLv3": "", "!TLSv1.4": "", "nonsense": "", "!SSLv2:!SSLv3:!TLSv1": "1.1", ">=SSLv3": "1.0",
	} {
		if got := lowestTLS(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestFieldsOf(t *testing.T) {
	for pattern, want := range map[string]string{
		"^Received:": "Received|", "^Received: .*": "Received|", `^X-A:\s*foo`: "X-A|^foo", "^(A|B): x": "A,B|^x", "^(A|B): (x)": "no", "^(?:A|B): (x)": "A,B|^(x)", "Received": "no", "^A:.*b": "A|b",
		"^A: ^b": "A|^b", `^X-[A-Z]+: x`: "no", "^Subject: $": "Subject|",
	} {
		fields, match, ok := fieldsOf(pattern)
		got := "no"
		if ok {
			got = strings.Join(fields, ",") + "|" + match
		}
		if got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}

// A map of many routes is named, not copied, if all of its lines are routes here as they are.
func TestManyRoutes(t *testing.T) {
	var good strings.Builder
	for i := range routesMax + 1 {
		fmt.Fprintf(&good, "d%d.example smtp:[10.0.0.1]\n", i)
	}
	main := "transport_maps = hash:/etc/postfix/transport, hash:/etc/postfix/second\n"
	r := of(main, map[string]string{"transport": good.String(), "second": good.String()}, "")
	if want := `routes_file = ["/etc/postfix/transport", "/etc/postfix/second"]`; !strings.Contains(r.TOML, want) {
		t.Errorf("%s is not in\n%s", want, r.TOML)
	}
	r = of(main, map[string]string{"transport": good.String() + "x.example local:\n", "second": "a.example smtp:\n"}, "")
	if strings.Contains(r.TOML, "routes_file") || !strings.Contains(r.TOML, `"a.example" = "smtp:"`) || !strings.Contains(said(r), "502 routes, too many for the result, and 1 of them") {
		t.Error(said(r))
	}
}

// What the configuration refuses is taken out, with its reason, and the rest stays; so are tables
// that are nothing without it.
func TestRefusedValuesAreTakenOut(t *testing.T) {
	r := of("smtp_connect_timeout = 9999d\nsmtp_helo_timeout = 20s\nsmtpd_milters = nonsense\nsmtp_tls_policy_maps = inline:{ {a.example = secure match=no^name} }\n", nil, "")
	if _, err := config.Parse("r", []byte(r.TOML), config.Environment{Hostname: "host.example.com"}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"#smtp_connect_timeout = \"9999d\"", "\nsmtp_helo_timeout = \"20s\"", "#[[milter]]", "smtp_connect_timeout = \"9999d\" cannot be set here: "} {
		if !strings.Contains(said(r), want) {
			t.Errorf("%s is not in\n%s", want, said(r))
		}
	}
}

// No files of Postfix break the translation, the result is always one that the configuration
// accepts, and a password is not in it.
func FuzzTranslate(f *testing.F) {
	f.Add("myhostname = a.example\nrelayhost = [b]:465\nsmtp_tls_wrappermode = yes\ntransport_maps = hash:/t regexp:/t\nsmtpd_milters = { inet:a:1, default_action=accept }\n", "smtp inet n - n - - smtpd\n -o smtpd_milters=\nslow unix - - n - 1 smtp -o smtp_bind_address=1.2.3.4\np unix - n n - - pipe flags=DR user=a:b argv=/x ${user}\n", "a.example slow:\n/b/ p:\n10.0.0.0/8 REJECT\n")
	f.Add("mydestination = a, b\nmailbox_transport = lmtp:unix:x\nvirtual_alias_maps = inline:{a=b}\nheader_checks = pcre:/t\nalias_maps=hash:/t\nsmtpd_relay_restrictions = check_client_access cidr:/t reject\n", "127.0.0.1:25 inet n - n - - postscreen\nsmtpd pass - - n - - smtpd -o a=$b\nlmtp unix - - n - - lmtp\n", "/^A: (b)/ REPLACE A: $1\nroot: a@b\n")
	f.Add("smtp_sasl_auth_enable = yes\nsmtp_sasl_password_maps = hash:/t\nsmtp_tls_policy_maps = hash:/t\nmynetworks = !10.0.0.1 10.0.0.0/8 cidr:/t\nsender_dependent_relayhost_maps=hash:/t\nsender_dependent_default_transport_maps=hash:/t\n", "", "@a.example [b]:587\na.example secure match=b\n[c]:25 user:pass\n")
	f.Fuzz(func(t *testing.T, main, master, text string) {
		if len(main)+len(master)+len(text) > 20_000 {
			return
		}
		in := Input{Credentials: "/c.toml", Environment: config.Environment{Hostname: "host.example.com"}, Read: func(_ string, m maincf.Table) (string, string, error) {
			if strings.HasSuffix(m.Name, "none") {
				return "", "", errors.New("there is none")
			}
			return "t", text, nil
		}}
		in.Main, in.Problems = maincf.ParseMain("main.cf", main)
		if master != "" {
			in.Services, _ = maincf.ParseMaster("master.cf", master)
		}
		r := Translate(in)
		if _, err := config.Parse("r", []byte(r.TOML), in.Environment); err != nil {
			t.Errorf("%v\n%s", err, r.TOML)
		}
	})
}

// Large files take little time, whatever is in them: with ten times as much, which is the most that is
// read of a main.cf, 3 s.
func TestLargeFiles(t *testing.T) {
	size := min(15_000*golden.Runs(1), 50_000)
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i, i)
		}
		return b.String()
	}
	files := map[string]string{"networks": many("10.%d.0.0/33 x%d\n"), "domains": many("d%d.example x%d\n"), "checks": many("/^X-A%d: y%d/ REJECT\n"), "master.cf": many("s%d unix - - n - - smtp -o a%d=b\n")}
	begun := time.Now()
	for _, main := range []string{many("unknown%d = $unknown%d\n"), "mynetworks = " + many("!10.0.%d.%d ") + "10.0.0.0/8\n", "mynetworks = hash:/networks\n", "relay_domains = hash:/domains\nrelay_transport = smtp:[a]\n", "header_checks = regexp:/checks\n", "transport_maps = hash:/domains\n"} {
		r := of(main, files, "")
		if _, err := config.Parse("r", []byte(r.TOML), config.Environment{}); err != nil && !strings.Contains(err.Error(), "larger than") {
			t.Errorf("%.60s: %.500s", main, err.Error())
		}
		t.Logf("%.40q: %s, %d bytes, %d remarks", main, time.Since(begun).Round(time.Millisecond), len(r.TOML), len(r.Remarks))
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("they took %s", took)
	}
}

// ETRN is carried over for domains that are named. Which clients may use it is taken from the restrictions, for each listener.
func TestETRN(t *testing.T) {
	const master = "smtp inet n - n - - smtpd\n26 inet n - n - - smtpd -o smtpd_etrn_restrictions=reject\n27 inet n - n - - smtpd -o smtpd_discard_ehlo_keywords=ETRN\nsubmission inet n - n - - smtpd -o smtpd_tls_security_level=none -o smtpd_etrn_restrictions=reject\n"
	listeners := func(uses ...string) (text string) {
		for i, use := range uses {
			if use != "" {
				text += fmt.Sprintf("%d %s\n", i, use)
			}
		}
		return text
	}
	for _, test := range []struct {
		main    string
		domains string // as in the result; "" if there are none
		uses    string
		said    string // in a remark or a note; "" if there is no remark
	}{
		{"", "", "", "ETRN is offered only for the domains of fast_flush_domains, and there is none"},
		{"relay_domains = a.example\nsmtpd_etrn_restrictions = permit_mynetworks, reject\n", "", "", "ETRN is offered only for"},
		{"fast_flush_domains =\n", "", "", "ETRN is offered only for"},
		{"relay_domains = A.example, hash:/etc/more\nfast_flush_domains = $relay_domains\n", `[".a.example", ".b.example", "a.example", "b.example"]`, listeners("", "off", "off"), ""},
		{"fast_flush_domains = a.example, .b.example\nparent_domain_matches_subdomains =\n", `[".b.example", "a.example"]`, listeners("", "off", "off"), ""},
		{"fast_flush_domains = a.example\nparent_domain_matches_subdomains =\nsmtpd_etrn_restrictions = permit_mynetworks, permit_sasl_authenticated, reject\n", `["a.example"]`, listeners("trusted", "off", "off"), ""},
		{"fast_flush_domains = a.example\nparent_domain_matches_subdomains =\nsmtpd_etrn_restrictions = permit_mynetworks check_etrn_access hash:/etc/etrn\n", `["a.example"]`, listeners("", "off", "off"), "check_etrn_access hash:/etc/etrn: ETRN is for all clients, or for those that may send anywhere"},
		{"fast_flush_domains = a.example\nparent_domain_matches_subdomains =\nsmtpd_etrn_restrictions = reject_rbl_client bl.example, permit\n", `["a.example"]`, listeners("", "off", "off"), "reject_rbl_client bl.example: ETRN is for"},
		{"fast_flush_domains = !x.example, ldap:/etc/ldap, a.example\nparent_domain_matches_subdomains =\nsmtpd_discard_ehlo_keywords = etrn\n", `["a.example"]`, listeners("off", "off", "off"), "Write the domains into fast_flush_domains."},
		{"fast_flush_refresh_time = 1h\nfast_flush_purge_time = 2d\n", "", "", "There are no files with the mail of each domain"},
	} {
		r := of(test.main, map[string]string{"master.cf": master, "more": "b.example x\n"}, "")
		c, err := config.Parse("result", []byte(r.TOML), config.Environment{Hostname: "host.example.com"})
		if err != nil {
			t.Errorf("%s: %v", test.main, err)
			continue
		}
		uses := ""
		for i, l := range c.AllListeners() {
			if l.ETRN.Set {
				uses += fmt.Sprintln(i, l.ETRN.Value)
			}
		}
		if uses != test.uses {
			t.Errorf("%s\nlisteners %q, want %q", test.main, uses, test.uses)
		}
		want := "\nfast_flush_domains = " + test.domains + "\n"
		if has := strings.Contains(r.TOML, "\nfast_flush_domains = "); has != (test.domains != "") || has && !strings.Contains(r.TOML, want) {
			t.Errorf("%s\n%s\nwant %s", test.main, r.TOML, want)
		}
		if test.said != "" && !strings.Contains(said(r), test.said) {
			t.Errorf("%s\n%s\nwant %s", test.main, said(r), test.said)
		}
		for _, one := range r.Remarks {
			if strings.Contains(one.Text, "ETRN") && !strings.Contains(test.said, ": ETRN") {
				t.Errorf("%s: %s", test.main, one.Text)
			}
		}
	}
}
