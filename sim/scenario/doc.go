// Package scenario reads scenario files, TOML, into sim.Scenario, and has the
// scenarios that come with the program. docs/simulation.md is the manual.
//
// # Procedure
//
// The TOML library checks the syntax, and its parser gives a tree whose every
// key and value knows where in the file it is. Each table of a scenario is then
// a list of fields, each of which sets one thing or complains about its value;
// a key that no field has is a complaint with a guess at what was meant. All
// complaints are collected, in the form that package config has for them.
//
// What the runs' queue managers are configured with is not read here: the keys
// of [config] and of each [[run]] are put together to the text of a
// configuration file, which package config reads, so that scenarios know every
// parameter that the daemon knows, under the same names. Its complaints are
// carried back to where the key stands in the scenario.
package scenario
