// A server that answers E2B's clients at once, with the same bytes for everybody: what is left of a
// measurement against it is the client, the kernel and HTTP.
import { createServer } from 'node:http'

const lines = (...values) => values.map((value) => JSON.stringify(value) + '\n').join('')

function envelope(message, flags = 0) {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.from([flags, 0, 0, 0, 0])
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

const json = { 'Content-Type': 'application/json' }
const answers = [ // beginning of the path, status, headers, body
  ['/v2/sandboxes', 201, json, JSON.stringify({
    templateID: 'base', sandboxID: 'i0123456789abcdef', clientID: 'canned', envdVersion: '0.6.13',
    envdAccessToken: 'canned', domain: null,
  })],
  ['/process.Process/Start', 200, { 'Content-Type': 'application/connect+json' }, Buffer.concat([
    envelope({ event: { start: { pid: 2 } } }),
    envelope({ event: { end: { exitCode: 0, exited: true, status: 'exit status 0' } } }),
    envelope({}, 2),
  ])],
  ['/execute', 200, json, lines(
    { type: 'number_of_executions', execution_count: 1 },
    { type: 'result', text: '2', is_main_result: true, extra: {} },
    { type: 'end_of_execution' })],
  ['/', 204, {}, undefined],
]

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    const [, status, headers, body] = answers.find(([path]) => request.url.startsWith(path))
    response.writeHead(status, headers)
    response.end(body)
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
