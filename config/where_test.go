package config

import "testing"

// The value that binds, and where an operator changes it.
func TestWhere(t *testing.T) {
	c := mustParse(t, "smtp_connection_limit = 50\ndefault_destination_rate = \"5/s\"\n[transport.smtp]\nprocess_limit = 7\n[transport.a-b]\n[destination.big]\ndomains = [\"big.example\"]\ndestination_rate = \"9/min\"\n[spool]\ninline_limit = \"8K\"\n")
	for _, w := range []struct{ key, value, origin string }{
		{"smtp_connection_limit", "50", "set in line 1"},
		{"max_message_concurrency", "20", "the default"},
		{"transport.smtp.process_limit", "7", "set in line 4"},
		{"transport.smtp.destination_rate", `"5/s"`, "from default_destination_rate in line 2"},
		{"transport.a-b.process_limit", "100", "the default"},
		{"destination.big.destination_rate", `"9/min"`, "set in line 8"},
		{"spool.inline_limit", `"8K"`, "set in line 10"},
	} {
		if value, origin, ok := c.Where(w.key); value != w.value || origin != w.origin || !ok {
			t.Errorf("%s: %s, %s, %v; want %s, %s", w.key, value, origin, ok, w.value, w.origin)
		}
	}
	for _, key := range []string{"", "nothing", "transport.none.process_limit", "transport.smtp.", "destination.big.x"} {
		if value, origin, ok := c.Where(key); ok {
			t.Errorf("%q: %s, %s", key, value, origin)
		}
	}
}
