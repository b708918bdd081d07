"""Compares messages as they were sent with what arrived, by Python's email package.

The input is a JSON list of objects with "sent" and "got", both as base64, and
"unclean", whether octets above 127 may be left, and "folded", whether long lines were
broken. The output is a JSON list with a list
of what is wrong for each: every part has to decode to the same octets, every header
field but those of the encoding has to be there as it was, the encoding has to be named
once and hold for the octets of its part, and lines have to be short.
"""
import base64
import email
import email.policy
import json
import sys

ADDED = {"mime-version", "content-type", "content-transfer-encoding"}


def parts(message):
    yield message
    if message.is_multipart():
        for part in message.get_payload():
            yield from parts(part)


def octets(part):
    return part.get_payload(decode=True) or b""


def header(part):
    """The fields that nobody but the sender may write, as they stand in the message."""
    return [(name, value) for name, value in part.raw_items() if name.lower() not in ADDED]


def within(few, many):
    rest = iter(many)
    return all(field in rest for field in few)


def compare(sent, got, unclean, folded):
    wrong = []
    longest = max(len(line) for line in got.split(b"\r\n"))
    if longest > 998:
        wrong.append(f"a line of {longest} octets")
    if folded:  # what has broken a line stays in it
        got = got.replace(b"\r\n ", b"")
    before, after = [list(parts(email.message_from_bytes(m, policy=email.policy.compat32))) for m in (sent, got)]
    if len(before) != len(after):
        return [f"{len(before)} parts have become {len(after)}"]
    for n, (a, b) in enumerate(zip(before, after)):
        def check(good, what):
            if not good:
                wrong.append(f"part {n}, {a.get_content_type()}: {what}")

        check(a.get_content_type() == b.get_content_type(), f"is {b.get_content_type()}")
        check(a.get_content_type() != "text/plain" or a.get_param("charset") in (None, b.get_param("charset")), f"charset {b.get_param('charset')}")
        check(within(header(a), header(b)), f"header {header(b)}, was {header(a)}")
        check(len(b.get_all("content-type", [])) <= 1, "several types")
        encodings = [value.lower() for value in b.get_all("content-transfer-encoding", [])]
        check(len(encodings) <= 1, f"encodings {encodings}")
        encoding = (encodings or ["7bit"])[0]
        check(n > 0 or not encodings or len(b.get_all("mime-version", [])) == 1, "not one MIME-Version")
        if b.is_multipart():
            check(encoding in ("7bit", "8bit", "binary"), f"encoding {encoding}")
            check((a.preamble, a.epilogue) == (b.preamble, b.epilogue), "preamble or epilogue changed")
            continue
        check(octets(a) == octets(b), f"{octets(a)[:300]!r} has become {octets(b)[:300]!r}")
        if encoding == "7bit" and not unclean:
            check(b.get_payload().isascii(), "octets above 127 that are called 7bit")
    if not unclean and not got.isascii():
        wrong.append("octets above 127 in " + repr(next(line for line in got.split(b"\r\n") if not line.isascii())))
    return wrong


def decoded(pair):
    return compare(base64.b64decode(pair["sent"]), base64.b64decode(pair["got"]), pair["unclean"], pair["folded"])


json.dump([decoded(pair) for pair in json.load(sys.stdin)], sys.stdout)
