"""Certificates for servers of tests, from a CA of their own."""

import subprocess

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    def __init__(self, directory):
        self.directory = directory
        self.cert, self.key = directory / "far-ca.pem", directory / "far-ca.key"
        self.openssl("req", "-x509", *NEW_KEY, "-keyout", self.key, "-out", self.cert,
                     "-subj", "/CN=far CA", "-days", "9")

    @staticmethod
    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)

    def certificate(self, *names):
        """One file: the key, and a certificate for the names."""
        key, request, extensions, cert, both = (
            self.directory / f"{names[0]}.{end}" for end in ("key", "csr", "ext", "crt", "pem"))
        extensions.write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in names))
        self.openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={names[0]}")
        self.openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                     "-CAcreateserial", "-out", cert, "-days", "9", "-extfile", extensions)
        both.write_text(key.read_text() + cert.read_text())
        return both
