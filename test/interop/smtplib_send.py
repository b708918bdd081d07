"""Sends the messages of a JSON list on standard input with smtplib.

Each is an object with sender, recipients and content. They go over eight
connections, with each way that smtplib has of sending in turn.
"""
import json
import smtplib
import sys
import threading


def send(server, number, message):
    sender, recipients = message["sender"], message["recipients"]
    content = message["content"].encode()
    options = [[], ["BODY=8BITMIME"], ["BODY=8BITMIME", "RET=HDRS"]][number % 3]
    rcpt_options = [[], ["NOTIFY=FAILURE,DELAY"]][number % 2]
    refused = server.sendmail(sender, recipients, content, options, rcpt_options)
    if refused:
        raise RuntimeError(f"refused: {refused}")


def connection(host, port, messages, errors):
    try:
        with smtplib.SMTP(host, port, local_hostname="smtplib.test") as server:
            for number, message in enumerate(messages):
                if number % 100 == 50:
                    server.noop()
                    server.rset()
                send(server, number, message)
    except Exception as error:  # any of them is a failure of the test
        errors.append(repr(error))


def main():
    host, port = sys.argv[1].split(":")
    messages, errors = json.load(sys.stdin), []
    threads = [
        threading.Thread(target=connection, args=(host, int(port), messages[i::8], errors))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        sys.exit("; ".join(errors))


main()
