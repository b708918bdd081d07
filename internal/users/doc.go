// Package users has the users who may log in, and what their passwords are checked with, in
// one file of text.
//
// # The file
//
// A line is a user, with one or both of the things that passwords are checked with:
//
//	alice@example.com $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH SCRAM-SHA-256$65536:SALT$STORED:SERVER
//
// The hash is for PLAIN and LOGIN, in the form of the reference implementation of Argon2
// (RFC 9106); the keys are for SCRAM, in that of RFC 5803. Lines that begin with # are comments. A
// line of @secret and 32 bytes in base64 is the key of the salts that users get who do not
// exist.
//
// # Who does not exist
//
// A client must not find out which users exist. A password of one that does not is checked
// against a hash with the same parameters as new ones have, and SCRAM goes on with a salt that is
// the same each time, computed from the name and the secret. So times and replies differ
// only for users whose line has other parameters than [AddUser] writes.
//
// # Changes
//
// A change is made to a copy, which is synced and then renamed, so that a reader sees
// the old file or the new one; a lock on the directory keeps two changes from each other. A
// [File] looks whether the file has changed when it is asked, at most once in two seconds.
package users
