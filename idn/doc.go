// Package idn compares domain names that are written in different ways: a domain in another script has a form with
// U-labels (bücher.example) and one with A-labels (xn--bcher-kva.example), and is one domain in both (RFC 5890 2.3.2.1).
// Names that are ASCII cost a look at their characters, and no allocation if they are in lower case. All functions may be called by
// several goroutines.
package idn
