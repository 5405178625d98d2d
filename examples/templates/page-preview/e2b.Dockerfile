# The host's own programs: no image is downloaded.
FROM host
COPY index.html /srv/page/
COPY <<'END' /srv/page/serve.py
import functools
import http.server

handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="/srv/page")
http.server.ThreadingHTTPServer(("", 3000), handler).serve_forever()
END
EXPOSE 3000
