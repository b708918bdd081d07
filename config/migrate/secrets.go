package migrate

import (
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// secretName matches the names of parameters whose values are passwords: those of maps in main.cf,
// such as ldap_bind_pw, and of the administrator's own.
var secretName = regexp.MustCompile(`(?i)passw|_pw$|secret|_token$`)

// withheld stands for a secret.
const withheld = "[secret]"

// secretMin is the length of the shortest text that is replaced wherever it occurs: a password of
// three letters is in too many words.
const secretMin = 4

// findSecrets collects the passwords in main.cf and in the options of master.cf.
func (t *translation) findSecrets() {
	look := func(e maincf.Entry) {
		if secretName.MatchString(e.Name) && !strings.HasSuffix(e.Name, "_maps") {
			t.keepSecret(e.Value)
		}
		if tables, err := maincf.ParseTables(e.Value); err == nil && strings.HasSuffix(e.Name, "sasl_password_maps") {
			for _, one := range tables {
				if one.Type == maincf.TypeStatic || one.Type == maincf.TypeInline {
					t.keepSecret(one.Name)
				}
				for _, p := range one.Pairs {
					_, password := cutCredential(p.Value)
					t.keepSecret(password)
				}
			}
		}
	}
	for _, e := range t.in.Main.Entries {
		look(e)
	}
	for i := range t.in.Services {
		for _, e := range t.in.Services[i].Options {
			look(e)
		}
	}
}

// keepSecret has a text replaced in all that is shown.
func (t *translation) keepSecret(s string) {
	if len(s) >= secretMin && !slices.Contains(t.secrets, s) {
		t.secrets = append(t.secrets, s)
		slices.SortFunc(t.secrets, func(a, b string) int { return len(b) - len(a) }) // the whole before its parts
	}
}

// redact returns a text without secrets.
func (t *translation) redact(s string) string {
	for _, one := range t.secrets {
		s = strings.ReplaceAll(s, one, withheld)
	}
	return s
}
