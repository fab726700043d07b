"""Asks the daemon, as a program below an agent would: prints the status of each change, and what it sees of a nonce."""

import base64
import os
import socket
import sys

SOCKET, SESSION = sys.argv[1], sys.argv[2]
BASE = "/api/sessions/" + SESSION
NONCE = "5d0c9f3e-8a34-4c4e-9d43-5f2f4fb8f001"


def connect(head, body=""):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(20)
    peer.connect(SOCKET)
    peer.sendall(("\r\n".join(head) + "\r\nHost: maestro\r\n\r\n" + body).encode())
    return peer


def read_to_end(peer):
    parts = []
    while part := peer.recv(65536):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def post(path, body):
    head = ["POST %s HTTP/1.1" % path, "Connection: close", "Content-Type: application/json"]
    return read_to_end(connect(head + ["Content-Length: %d" % len(body)], body))


def get(path):
    return read_to_end(connect(["GET %s HTTP/1.1" % path, "Connection: close"]))


for path, body in (
    ("/structured/prompt", '{"text":"x"}'),
    ("/structured/cancel", "{}"),
    ("/structured/approvals/" + NONCE, '{"decision":"AllowOnce"}'),
    ("/restart", "{}"),
):
    answer = post(BASE + path, body)
    print(answer.split(" ")[1], "agent_peer" in answer)
print(get(BASE).split(" ")[1])

key = base64.b64encode(os.urandom(16)).decode()
upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + key]
watching = connect(["GET /api/structured/%s HTTP/1.1" % SESSION] + upgrade)
seen = watching.recv(65536).decode("utf-8", "replace")
if seen.split(" ")[1] != "101":
    print(seen.split(" ")[1])
    sys.exit()
while '"nonce":' not in seen or len(seen.split('"nonce":')[1]) < 4:
    part = watching.recv(65536)
    if not part:
        sys.exit("the daemon closed the socket after " + seen)
    seen += part.decode("utf-8", "replace")
print(seen.split('"nonce":')[1][:4])
