// A server that answers Daytona's clients at once, with the same bytes for every client: what is left of a
// measurement against it is the client, the kernel and HTTP.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'

const json = { 'Content-Type': 'application/json' }
let port
const sandbox = (state) => JSON.stringify({
  id: 'canned', organizationId: 'canned', name: 'canned', user: 'user', env: {}, labels: {}, public: false,
  networkBlockAll: false, target: 'us', cpu: 1, gpu: 0, memory: 1, disk: 3, state,
  toolboxProxyUrl: `http://127.0.0.1:${port}/toolbox`,
})

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    response.writeHead(200, json)
    if (request.url.startsWith('/toolbox')) response.end('{"exitCode":0,"result":""}')
    else response.end(sandbox(request.method === 'DELETE' ? 'destroyed' : 'started'))
  })
})

// Socket.IO: the handshake, and nothing after it.
const frame = (text) => Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)])
server.on('upgrade', (request, socket) => {
  const key = createHash('sha1')
    .update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
               `Sec-WebSocket-Accept: ${key}\r\n\r\n`)
  socket.write(frame('0{"sid":"x","upgrades":[],"pingInterval":250000,"pingTimeout":20000}'))
  socket.once('data', () => socket.write(frame('40{"sid":"y"}')))
  socket.on('error', () => {})
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  port = server.address().port
  console.log(port)
})
