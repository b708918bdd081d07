#!/usr/bin/env python3
"""Serves MTA-STS policies by HTTPS.

usage: policies.py ADDRESS CERTIFICATE KEY DIRECTORY

The policy of a host is the file DIRECTORY/HOST/policy.
"""
import http.server
import os
import ssl
import sys

address, certificate, key, directory = sys.argv[1:]


class Policies(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = os.path.join(directory, os.path.basename(self.headers.get("Host", "")), "policy")
        if self.path != "/.well-known/mta-sts.txt" or not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as f:
            text = f.read()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = http.server.ThreadingHTTPServer((address, 443), Policies)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
