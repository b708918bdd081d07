package assert

import (
	"fmt"
	"reflect"
	"strings"
)

// That panics unless cond is true. The panic value is a string: "assertion
// failed: " followed by format filled in with args.
//
// Args may be booleans, numbers, strings and types made of these; their String
// and Error methods are honoured. Of anything else only the type is shown: to
// print the value it would have to be moved to the heap at every call, whether
// the assertion holds or not. Pass the field that matters, or its String().
func That(cond bool, format string, args ...any) {
	if !cond {
		fail(format, args)
	}
}

// Unreachable panics, with the same text as That. It marks what a switch over
// a closed set cannot come to.
func Unreachable(format string, args ...any) {
	fail(format, args)
}

// fail prints copies, so that escape analysis sees that args do not outlive
// the call and callers keep them on the stack.
//
//go:noinline
func fail(format string, args []any) {
	copies := make([]any, len(args))
	for i := range args {
		copies[i] = clone(args[i])
	}
	panic("assertion failed: " + fmt.Sprintf(strings.Clone(format), copies...))
}

// opaque is printed for a value that clone does not copy, under every verb.
type opaque string

// Format implements fmt.Formatter.
func (o opaque) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "(%s)", string(o)) }

func clone(arg any) any {
	from := reflect.ValueOf(arg)
	if !from.IsValid() {
		return nil
	}
	to := reflect.New(from.Type()).Elem()
	switch from.Kind() {
	case reflect.Bool:
		to.SetBool(from.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		to.SetInt(from.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		to.SetUint(from.Uint())
	case reflect.Float32, reflect.Float64:
		to.SetFloat(from.Float())
	case reflect.String:
		to.SetString(strings.Clone(from.String()))
	default:
		return opaque(from.Type().String())
	}
	return to.Interface()
}
