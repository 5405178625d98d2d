// Ports of a sandbox by their own names over TLS, and clients that are only told a domain.
import { test } from 'node:test'
import assert from 'node:assert/strict'

// Before the SDK looks: no URLs, a domain is all it gets.
const domain = process.env.ATOLL_TEST_DOMAIN
delete process.env.E2B_API_URL
delete process.env.E2B_SANDBOX_URL
process.env.E2B_DOMAIN = domain

const { Sandbox } = await import('@e2b/code-interpreter')
const { boxTest, until } = await import('./helpers.mjs')

const SERVER = `
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("%s %s" % (self.path, self.headers["Host"])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.HTTPServer((sys.argv[1], 8000), Handler).serve_forever()
`

async function serve(box, address = '127.0.0.1') {
  await box.files.write('/tmp/server.py', SERVER)
  await box.commands.run(`python3 /tmp/server.py ${address}`, { background: true, timeoutMs: 0 })
  return `https://${box.getHost(8000)}`
}

const answering = (url, init) =>
  until(async () => {
    const answer = await fetch(url, init)
    const text = await answer.text()
    return answer.status === 200 && text
  }, `nothing at ${url}`)

boxTest(Sandbox, 'a server behind getHost', async (box) => {
  assert.equal(box.sandboxDomain, domain)
  assert.equal(box.getHost(8000), `8000-${box.sandboxId}.${domain}`)
  const url = await serve(box)
  assert.equal(await answering(`${url}/path?q=1`), `/path?q=1 ${box.getHost(8000)}`)
  const closed = await fetch(`https://${box.getHost(8001)}/`)
  assert.equal(closed.status, 502)
  assert.deepEqual(await closed.json(), {
    sandboxId: box.sandboxId, message: 'The sandbox is running but port is not open', port: 8001, code: 502,
  })
})

boxTest(Sandbox, 'it is there again after a pause', async (box) => {
  const url = await serve(box, '0.0.0.0')
  await answering(url)
  await box.pause()
  assert.equal((await fetch(url)).status, 502)
  await box.connect()
  await answering(url)
})

test('a killed sandbox', async () => {
  const box = await Sandbox.create()
  const url = await serve(box)
  await answering(url)
  await box.kill()
  const answer = await fetch(url)
  const body = await answer.json()
  assert.deepEqual([answer.status, body.code, body.message], [502, 502, 'The sandbox was not found'])
})

boxTest(Sandbox, 'ports that are not public', { network: { allowPublicTraffic: false } }, async (box) => {
  const url = await serve(box)
  const headers = { 'e2b-traffic-access-token': box.trafficAccessToken }
  await answering(url, { headers })
  assert.equal((await fetch(url)).status, 403)
  assert.equal((await fetch(url, { headers: { 'e2b-traffic-access-token': 'wrong' } })).status, 403)
  assert.equal((await box.runCode('1 + 1')).text, '2', 'the interpreter gets the token')
})

boxTest(Sandbox, 'maskRequestHost', { network: { maskRequestHost: 'masked.example.com:${PORT}' } },
  async (box) => {
    assert.equal(await answering(await serve(box)), '/ masked.example.com:8000')
  })

boxTest(Sandbox, 'commands, files, signed URLs and code with nothing but a domain', async (box) => {
  assert.equal((await box.commands.run('echo $((6*7))')).stdout, '42\n')
  await box.files.write('f', 'content')
  assert.equal(await box.files.read('f'), 'content')
  const url = await box.downloadUrl('f')
  assert.ok(url.startsWith(`https://49983-${box.sandboxId}.${domain}/files`), url)
  assert.equal(await (await fetch(url)).text(), 'content')
  assert.equal((await box.runCode('print(40 + 2)')).logs.stdout.join(''), '42\n')
  const found = await Sandbox.list().nextItems()
  assert.ok(found.some((s) => s.sandboxId === box.sandboxId))
})
