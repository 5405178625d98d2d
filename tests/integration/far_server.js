// Servers of HTTP for header rules: node far_server.js CERTIFICATE LOG [PORT PLAIN_PORT]. HTTP/1.1 and HTTP/2
// over TLS on port 443, plain HTTP/1.1 on port 80. Each request is a line of JSON in LOG: what it was, with its
// headers. The answer depends on the path.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const http2 = require('http2');

const [certificate, log, port = '443', plainPort = '80'] = process.argv.slice(2);
const pem = fs.readFileSync(certificate);

function note(request, body) {
    fs.appendFileSync(log, JSON.stringify({
        version: request.httpVersion, method: request.method, url: request.url,
        headers: request.headers, tls: Boolean(request.socket.encrypted), body: body,
    }) + '\n');
}

function answer(request, response) {
    const hash = crypto.createHash('sha256');
    let bytes = 0;
    request.on('data', (chunk) => { hash.update(chunk); bytes += chunk.length; });
    request.on('end', () => {
        note(request, {bytes: bytes, sha256: hash.digest('hex')});
        if (request.url.startsWith('/big/')) {
            const size = Number(request.url.slice(5));
            const block = Buffer.alloc(65536, 'b');
            let left = size;
            const more = () => {
                while (left > 0) {
                    const n = Math.min(left, block.length);
                    left -= n;
                    if (!response.write(block.subarray(0, n))) {
                        response.once('drain', more);
                        return;
                    }
                }
                response.end();
            };
            more();
        } else if (request.url === '/grpc') {
            response.writeHead(200, {'content-type': 'application/grpc'});
            response.write('message');
            response.addTrailers({'grpc-status': '0', 'grpc-message': 'fine'});
            response.end();
        } else if (request.url === '/slow') {
            response.write('first\n');
            setTimeout(() => response.end('last\n'), 300);
        } else {
            response.setHeader('x-far', 'yes');
            response.end(`${request.method} ${request.url} over ${request.httpVersion}\n`);
        }
    });
}

// An upgrade to a protocol that repeats what it is told.
function upgrade(request, socket) {
    note(request, null);
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ');
    socket.pipe(socket);
}

const secure = http2.createSecureServer({key: pem, cert: pem, allowHTTP1: true}, answer);
const plain = http.createServer(answer);
secure.on('upgrade', upgrade);
plain.on('upgrade', upgrade);
secure.listen(Number(port), () => plain.listen(Number(plainPort), () => console.log('ready')));
