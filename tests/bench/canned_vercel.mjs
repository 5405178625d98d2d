// A server that answers Vercel's clients at once, with the same bytes for every client: what is left of a
// measurement against it is the client, the kernel and HTTP. With the argument "run" it also runs the command, here on
// the host, before it answers: the least that a command takes with any service.
import { execFile } from 'node:child_process'
import { createServer } from 'node:http'

const runs = process.argv[2] === 'run'

const now = 1_700_000_000_000
const session = (status) => ({
  id: 'sbx_canned', memory: 4096, vcpus: 2, region: 'iad1', timeout: 300_000, status,
  requestedAt: now, startedAt: now, createdAt: now, updatedAt: now, cwd: '/vercel/sandbox',
})
const sandbox = (status) => ({ name: 'canned', persistent: true, createdAt: now, updatedAt: now, currentSessionId: 'sbx_canned', status })
const command = (exitCode) => ({
  command: { id: 'cmd_canned', name: 'node', args: ['-v'], cwd: '/vercel/sandbox', sessionId: 'sbx_canned', exitCode, startedAt: now },
})
const whole = (status) => JSON.stringify({ sandbox: sandbox(status), session: session(status), routes: [] })
const lines = [command(null), { stream: 'stdout', data: 'v22.0.0\n' }, command(0)].map((line) => `${JSON.stringify(line)}\n`).join('')

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    const [path] = request.url.split('?')
    const isCommand = path.endsWith('/cmd')
    const answer = () => {
      response.writeHead(200, { 'Content-Type': isCommand ? 'application/x-ndjson' : 'application/json' })
      response.end(isCommand ? lines : whole(path.endsWith('/stop') ? 'stopped' : 'running'))
    }
    if (isCommand && runs) execFile('node', ['-v'], answer)
    else answer()
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
