"""Reads reports with Python's email package and prints what is in them.

The arguments are files, one report each. The output is a JSON list with one
object for each: what a mail program would see. Defects are what the parser
found to be against the standards.
"""
import email
import email.policy
import json
import sys


def fields(part):
    return {name.lower(): str(value) for name, value in part.items()}


def read(name):
    with open(name, "rb") as file:
        message = email.message_from_binary_file(file, policy=email.policy.default)
    defects = [repr(d) for part in message.walk() for d in part.defects]
    for part in message.walk():
        defects += [f"{name}: {d!r}" for name, value in part.items() for d in getattr(value, "defects", ())]
    parts = list(message.iter_parts())
    result = {
        "type": message.get_content_type(),
        "report_type": message.get_param("report-type"),
        "parts": [part.get_content_type() for part in parts],
        "defects": defects,
        "subject": message["subject"],
        "to": message["to"],
        "text": "",
        "message": {},
        "recipients": [],
        "original": {},
    }
    for part in parts:
        kind = part.get_content_type()
        if kind == "text/plain":
            result["text"] = part.get_content()
        elif kind == "message/delivery-status":
            blocks = part.get_payload()
            result["message"] = fields(blocks[0])
            result["recipients"] = [fields(block) for block in blocks[1:]]
        elif kind == "message/rfc822":
            result["original"] = fields(part.get_payload()[0])
        elif kind == "text/rfc822-headers":
            result["original"] = fields(email.message_from_string(part.get_content(), policy=email.policy.default))
    return result


json.dump([read(name) for name in sys.argv[1:]], sys.stdout)
