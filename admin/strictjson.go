package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// depthMax is the maximum nesting depth of a request's JSON; the API's own is
// three.
const depthMax = 32

// unmarshalStrict is json.Unmarshal for requests: it refuses what two parsers could
// read differently (bytes that are not UTF-8, duplicate keys, data after the
// value), and deep nesting.
func unmarshalStrict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := checkValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("unexpected data after the JSON value")
	}
	return json.Unmarshal(data, v)
}

// checkValue reads one value.
func checkValue(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	open, nested := t.(json.Delim)
	if !nested {
		return nil
	}
	if depth >= depthMax {
		return fmt.Errorf("nested more than %d deep", depthMax)
	}
	names := map[string]bool{}
	for d.More() {
		if open == '{' {
			if err := checkName(d, names); err != nil {
				return err
			}
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}

func checkName(d *json.Decoder, seen map[string]bool) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	name, ok := t.(string)
	if !ok {
		return errors.New("not JSON: an object key is not a string")
	}
	if seen[name] {
		return fmt.Errorf("duplicate key %q", name)
	}
	seen[name] = true
	return nil
}
