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
