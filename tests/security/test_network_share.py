"""The connections that header rules make to servers are of the tenant's share, too: one connection of a client
leads to sixteen of them, and atoll-egress has its descriptors for all tenants."""

import ssl
import threading

from boxes import Box
from daemons import wait_until
from networks import FAR, NAMES, networked
from rest import Rest

FILES = 1440  # of each process: room for 64 to 70 connections
CLIENTS, REQUESTS = 8, 16
TEN_THOUSAND, GREEDY_BOXES, MODEST_COUNT = 10_000, 5, 50


class Silent:
    """A server of HTTP/1.1 over TLS that never answers."""

    def __init__(self, listening, certificate):
        self.listening, self.held = listening, []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.hold, args=(sock,), daemon=True).start()

    def hold(self, sock):
        try:
            self.held.append(self.context.wrap_socket(sock, server_side=True))
        except OSError:
            sock.close()


class Greeting:
    """A server that says "hi" and holds what connects."""

    def __init__(self, listening):
        self.listening, self.held = listening, []
        self.listening.listen(4096)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listening.accept()
            except OSError:
                return
            sock.sendall(b"hi")
            self.held.append(sock)

    def close(self):
        self.listening.close()
        for sock in self.held:
            sock.close()


GREEDY = f"""
import socket, time
held = []
for _ in range({TEN_THOUSAND // GREEDY_BOXES}):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(("{FAR[0]}", 7000))
    held.append(sock)
open("/home/user/all", "w").close()
time.sleep(600)
"""
MODEST = f"""
import socket
held = [socket.create_connection(("{FAR[0]}", 7000), 30) for _ in range({MODEST_COUNT})]
print(sum(sock.recv(2) == b"hi" for sock in held))
"""


def ends(box):
    return [c["end"] for c in box.get("network/connections", limit=1000).json["connections"]]


def test_ten_thousand_connections_do_not_starve_another_tenant():
    """One tenant opens more connections than there are. Another one gets its share; a second sandbox of the first
    tenant does not: the control."""
    with networked(files=2600) as daemon:  # room for some 260 connections
        rest, other = Rest(daemon.socket), Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
        server = Greeting(daemon.networks.far.listen(FAR[0], 7000))
        greedy = [Box(rest, limits={"openFiles": 2600}, networkMode="bridge") for _ in range(GREEDY_BOXES)]
        for box in greedy:
            box.detach(f"exec python3 -c '{GREEDY}'")
        for box in greedy:
            wait_until(lambda box=box: box.run("test -e /home/user/all")["result"]["exit_code"] == 0, 60, lambda: "slow")
        wait_until(lambda: any("limited" in ends(box) for box in greedy), 30, lambda: f"{len(server.held)} connections")
        taken = len(server.held)
        assert 200 < taken < 300
        modest = Box(other, limits={"openFiles": 1024}, networkMode="bridge")
        assert modest.out(f"python3 -c '{MODEST}'") == str(MODEST_COUNT)
        assert "limited" not in ends(modest)
        assert set(ends(modest)) <= {"closed", "reset", "open"}
        second = Box(rest, limits={"openFiles": 1024}, networkMode="bridge")
        assert second.run(f"python3 -c '{MODEST}'")["result"]["exit_code"] != 0
        for box in (*greedy, modest, second):
            box.destroy()
        server.close()


def test_connections_of_header_rules_are_of_the_tenants_share():
    with networked(files=FILES) as daemon:
        rest, networks = Rest(daemon.socket), daemon.networks
        server = Silent(networks.far.listen(FAR[0], 443), networks.authority.certificate(*NAMES))
        box = Box(rest, limits={"openFiles": 1024}, network={"mode": "bridge", "transforms": [
            {"domain": "one.test", "headers": {"x-a": "b"}}]})
        box.detach(f"for i in $(seq {CLIENTS}); do curl -sS --http2 -Z --parallel-max {REQUESTS} -m 60 "
                   f"-o /home/user/refused-$i-#1 'https://one.test/[1-{REQUESTS}]' & done; wait")
        refused = CLIENTS * REQUESTS - 70
        count = "ls /home/user | grep -c refused || true"
        wait_until(lambda: int(box.out(count)) >= refused or len(server.held) > 70, 40,
                   lambda: f"{len(server.held)} connections")
        assert 16 < len(server.held) <= 70
        box.destroy()
        server.listening.close()
