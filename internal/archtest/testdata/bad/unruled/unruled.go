// Package unruled is in no rule, which is bad.
package unruled
