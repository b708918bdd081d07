package migrate

import (
	"os"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/config"
)

// parameters returns the names of Postfix's parameters: those of `postconf -d` of version 3.7 and
// of the manual of a snapshot of 2026.
func parameters(t *testing.T) []string {
	text, err := os.ReadFile("testdata/parameters.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// Every parameter of Postfix has an answer, and what is said of it is a sentence.
func TestEveryParameterHasAnAnswer(t *testing.T) {
	kinds := map[answerKind]int{}
	for _, name := range parameters(t) {
		a, ok := answerTo(name)
		if !ok {
			t.Errorf("there is no answer to %s", name)
			continue
		}
		kinds[a.kind]++
		if a.kind != carried && strings.TrimSpace(a.text) == "" {
			t.Errorf("%s: nothing is said of it", name)
		}
	}
	t.Logf("%d are carried over, %d are not needed, %d are lost", kinds[carried], kinds[unneeded], kinds[lost])
}

// The table has no names that Postfix does not have, for these would be misspelled.
func TestAnswersAreAboutParameters(t *testing.T) {
	real := map[string]bool{}
	for _, name := range parameters(t) {
		real[name] = true
	}
	for name := range answers {
		if !real[name] && !old[name] && !real[strings.Replace(name, "smtp_", "lmtp_", 1)] {
			t.Errorf("%s is not a parameter of Postfix", name)
		}
	}
}

// old are parameters of versions before 3.7.
var old = map[string]bool{"qmgr_site_hog_factor": true, "opportunistic_lock": true, "maps_rbl_domains": true, "smtp_cache_connection": true, "smtp_fallback_relay_maps": true}

// What the configuration's own messages say of a parameter of Postfix, the import knows, too.
func TestForeignNamesHaveAnswers(t *testing.T) {
	for _, name := range parameters(t) {
		if _, foreign := config.Foreign(name); foreign {
			if a, _ := answerTo(name); a.kind == 0 {
				t.Errorf("%s has no answer", name)
			}
		}
	}
}
