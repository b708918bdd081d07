package tlspolicy

import "testing"

// A line of the log has a demand without its names, which may be hundreds of characters.
func TestWord(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "dane": "dane", "none": "none", "sts=*.a.test,mx.b.test": "sts", "fingerprint=" + digest: "fingerprint", "secure=.a.test,a.test+implicit": "secure+implicit",
		"+auth=office": "may+auth=office", "+auth=office~01ab": "may+auth=office", "verify=x.test+implicit+auth=a.b-c~0+requiretls": "verify+implicit+auth=a.b-c+requiretls", "verify=x.test+implicit+auth=a.b-c+requiretls": "verify+implicit+auth=a.b-c+requiretls", "+wants-requiretls": "may+wants-requiretls",
	} {
		if got := Word(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if _, err := ParseDemand(text); err != nil {
			t.Error(err)
		}
	}
}
