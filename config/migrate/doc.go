// Package migrate turns a configuration of Postfix into one of this program.
//
// # Procedure
//
//  1. [Translate] goes through the parameters of main.cf in their order. A table (answers.go)
//     has an answer for every parameter of Postfix: what it becomes here, that it is not needed
//     and why, or that it is lost and what to do about it. A test compares the table with the
//     list of Postfix's parameters.
//  2. Services of master.cf become listeners and transports; options of theirs replace parameters.
//     Maps become routes, destinations and credentials, or are named where they are.
//  3. The result is written as TOML ([document]). Each line of Postfix's files is in it as a comment,
//     above what it has become or at the end.
//  4. Package config reads the result. What it refuses, such as a value that is out of range here, is
//     taken out, and there is a remark with its reason.
//
// # Secrets
//
// Passwords are written to the text of the file of credentials and to nothing else: comments and
// remarks have them replaced, wherever they come from (secrets.go).
package migrate
