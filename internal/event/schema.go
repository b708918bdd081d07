package event

import (
	"encoding/json"
	"fmt"
	"strings"
)

// streamKinds are lines that only those receive who follow events.
var streamKinds = []Kind{
	{"subscribed", "info", "The first line: events follow from now on.", []Field{{"log_schema", Integer, true, "The version of this list."}}},
	{"lost", "warn", "Events are missing here, because they came faster than they were read.", []Field{{"events", Integer, true, "The number of them."}}},
}

// Schema returns the JSON schema of the lines: of events, and of a stream of them.
func Schema() []byte {
	type object = map[string]any
	envelope := func(k *Kind) object {
		properties := object{
			"time":  object{"type": "string", "format": "date-time"},
			"level": object{"type": "string", "enum": []string{"DEBUG", "INFO", "WARN", "ERROR"}},
			"msg":   object{"const": k.Name},
		}
		required := []string{"time", "level", "msg"}
		for _, f := range k.Fields {
			value := map[Type]object{
				Text: {"type": "string"}, Integer: {"type": "integer"}, Number: {"type": "number"}, Seconds: {"type": "number"}, Flag: {"type": "boolean"},
				Time: {"type": "string", "format": "date-time"}, Parts: {"type": "array", "items": object{"type": "number"}, "minItems": 3, "maxItems": 3},
			}[f.Type]
			value["description"] = f.Meaning
			properties[f.Name] = value
			if f.Required {
				required = append(required, f.Name)
			}
		}
		return object{"type": "object", "description": k.Meaning, "properties": properties, "required": required, "additionalProperties": false}
	}
	definitions, all := object{}, []object{}
	for _, k := range append(Kinds(), streamKinds...) {
		name := strings.ReplaceAll(k.Name, " ", "-")
		definitions[name] = envelope(&k)
		all = append(all, object{"$ref": "#/$defs/" + name})
	}
	text, err := json.MarshalIndent(object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Events of Posthaste",
		"description": "A line of the log as JSON that is an event, or of /v1/events. Lines with another msg are not events.",
		"version":     Version,
		"oneOf":       all,
		"$defs":       definitions,
	}, "", "  ")
	if err != nil {
		panic(err) // of texts and numbers there is none
	}
	return append(text, '\n')
}

// Markdown returns the tables of all events for the documentation.
func Markdown() string {
	var b strings.Builder
	for _, k := range append(Kinds(), streamKinds...) {
		fmt.Fprintf(&b, "### %s\n\n%s Level %s.\n\n| field | type | |\n|---|---|---|\n", k.Name, k.Meaning, k.Level)
		for _, f := range k.Fields {
			optional := ""
			if !f.Required {
				optional = ", optional"
			}
			fmt.Fprintf(&b, "| `%s` | %v%s | %s |\n", f.Name, f.Type, optional, f.Meaning)
		}
		if len(k.Fields) == 0 {
			b.WriteString("| none | | |\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
