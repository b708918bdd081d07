package config

import _ "embed" // the example file

// Example is a configuration file that sets nothing: every parameter is commented
// out, with its meaning and its default. It is generated (see the tests).
//
//go:embed posthaste.toml
var Example string
