// Package mtasts finds the policies by which domains demand TLS for their mail
// without DNSSEC (MTA-STS, RFC 8461), and keeps them.
//
// A domain announces a policy by a TXT record, whose id changes when the policy does,
// and publishes it by HTTPS. An attacker that can forge DNS answers could suppress the
// record, so the protection is to remember: a policy that was found once is in force for
// its max_age, whatever the DNS says later. Everything here follows from that.
//
//   - [Store.Lookup] answers from the cache at once if a policy is in force. Only for
//     a domain without one does it ask the DNS and the web server, and wait. If these
//     fail there is no policy: the first contact cannot be protected (RFC 8461 10.2).
//     The search belongs to the store and not to who waits for it: it goes on when the caller
//     has given up, has a time limit of its own, and is one for all who ask.
//   - A policy in force is renewed in the background: when it has half of its max_age
//     behind it, or a day if that is less; and when the record has a new id, which is
//     looked for every five minutes while there is mail. If that fails it stays in force
//     until its max_age ends (RFC 8461 3.3), and the next attempt is 5 minutes later, then
//     10, up to a day.
//   - A policy of a domain that had no mail for a month is not renewed. It stays in force,
//     and the next mail renews it.
//   - A failure of the first fetch is remembered in the same way, for the id it had:
//     a domain with a broken web server costs one fetch in five minutes and then
//     ever fewer. A domain is fetched from at most once in a minute, whatever its ids.
//   - Policies survive restarts in a file of their own (Config.File), which is
//     replaced as a whole, at most once in ten minutes, and at the end. The queue's store was the alternative: its
//     records have 4 KB, and policies, of which there are some thousands that change
//     rarely, do not need its throughput. Every line has a checksum; a damaged one costs
//     one policy, which is then found anew.
//
// # What a web server can do
//
// The owner of a domain chooses the web server, the addresses of its name and all
// that it sends. So connections are made only to addresses that the program's own
// resolver found, and that are public unless Config.Permit says otherwise; no proxy,
// redirect, cookie, compression or second request is used; a response has 64 KiB, a
// minute in all, and must be text. The memory of all policies is limited; the least
// recently used are forgotten first.
//
// What to do with a policy is the caller's concern: only hosts for which
// [Policy.Matches] is true may get mail in mode enforce, and only with a valid
// certificate of their name (RFC 8461 4). Before mail is returned because of a policy,
// [Store.Recheck] must have looked for a new one (RFC 8461 5.1).
package mtasts
