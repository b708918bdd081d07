// Package nouns has values.
package nouns
