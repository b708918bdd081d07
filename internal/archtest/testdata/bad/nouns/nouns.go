// Package nouns has values.
package nouns

// A Noun is one.
type Noun int
