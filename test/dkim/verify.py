#!/usr/bin/env python3
"""Verifies all signatures of messages with dkimpy.

usage: verify.py ZONE FILE...

A line of ZONE is the name of a record and its text. The exit status is 1 unless each
message has two valid signatures above its first Received field.
"""
import sys

import dkim

zone = {}
with open(sys.argv[1]) as f:
    for line in f:
        name, text = line.rstrip("\n").split(" ", 1)
        zone[name.encode()] = text.encode()


def lookup(name, timeout=5):
    return zone.get(name.rstrip(b"."))


wrong = 0
for path in sys.argv[2:]:
    with open(path, "rb") as f:
        message = f.read()
    signatures = message.split(b"Received:", 1)[0].count(b"DKIM-Signature:")
    results = []
    for index in range(signatures):
        try:
            results.append(dkim.DKIM(message).verify(idx=index, dnsfunc=lookup))
        except dkim.DKIMException as e:
            results.append(str(e))
    if results != [True, True]:
        print(f"{path}: {results}")
        wrong += 1
print(f"dkimpy: {len(sys.argv) - 2} messages, {wrong} wrong")
sys.exit(1 if wrong or len(sys.argv) < 4 else 0)
