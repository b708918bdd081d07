// Package util is bad.
package util
