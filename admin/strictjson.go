package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// depthMax is how deep the JSON of a request may nest; the API's own is three
// deep.
const depthMax = 32

// unmarshalStrict is json.Unmarshal for requests: it refuses what two readers
// could understand in two ways (octets that are not UTF-8, an object with the
// same name twice, something behind the end), and deep nesting.
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
		return errors.New("there is something behind the JSON value")
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
		return errors.New("not JSON: an object has something else than a name")
	}
	if seen[name] {
		return fmt.Errorf("the name %q occurs twice", name)
	}
	seen[name] = true
	return nil
}
