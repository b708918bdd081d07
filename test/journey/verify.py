#!/usr/bin/env python3
"""Verifies all DKIM signatures of a message with dkimpy, by the DNS of the machine.

usage: verify.py FILE

It prints the algorithm of each signature, and whether it is valid.
"""
import sys

import dkim

with open(sys.argv[1], "rb") as f:
    message = f.read()
results = []
for index in range(message.count(b"DKIM-Signature:")):
    verifier = dkim.DKIM(message)
    valid = verifier.verify(idx=index)
    results += [verifier.signature_fields[b"a"].decode(), str(valid)]
print(" ".join(results))
