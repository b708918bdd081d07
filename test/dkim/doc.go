// Command dkim has a daemon sign mail of many forms, takes it in at the far end as an SMTP
// server, and writes each message to a file, with the records of the keys, for verifiers that
// others have written; see the script run.
package main
