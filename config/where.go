package config

import "fmt"

// Where returns the value of a parameter, given by its full name as in Change, and where it
// comes from: its line in the file, the line of the parameter that it inherits from, or the
// default. ok is false if there is no such parameter in this configuration.
func (c *Config) Where(key string) (value, origin string, ok bool) {
	for _, s := range sections {
		for _, p := range s.parameters {
			if fullName(s.table, p.name) == key {
				return literal(p.plain(c)), c.origin(key, ""), true
			}
		}
	}
	for name, t := range c.Transports {
		for _, p := range transportParameters {
			if fullName(transportTable(name), p.name) == key {
				return literal(p.plain(&t)), c.origin(key, p.global), true
			}
		}
	}
	for name, d := range c.Destinations {
		for _, p := range destinationParameters {
			if fullName(fullName(tableDestination, name), p.name) == key {
				return literal(p.plain(&d)), c.origin(key, ""), true
			}
		}
	}
	return "", "", false
}

// origin says where the value of a parameter is set, which may be by another one, global.
func (c *Config) origin(key, global string) string {
	switch {
	case c.explicit[key]:
		return fmt.Sprintf("set in line %d", c.lines[key])
	case global != "" && c.explicit[global]:
		return fmt.Sprintf("from %s in line %d", global, c.lines[global])
	}
	return "the default"
}
