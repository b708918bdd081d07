package credential

// A Secret is a text that nothing prints. The zero Secret is empty.
type Secret struct {
	// A pointer, because package fmt does not call methods of values in unexported fields, and
	// prints a pointer within a value as an address.
	text *string
}

// NewSecret returns a secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// reveal returns the text.
func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal reports whether two secrets have the same text.
func (s Secret) Equal(other Secret) bool { return s.reveal() == other.reveal() }

const hidden = "[secret]"

// String returns a placeholder.
func (s Secret) String() string { return hidden }

// GoString returns a placeholder.
func (s Secret) GoString() string { return hidden }

// MarshalText returns a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
