// How the SDK finds the daemon: the file that Node loads, the fetch parameter, and names with TLS.
import assert from 'node:assert/strict'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { CREDENTIALS, program } from './helpers.mjs'

const WORK = `
  const done = await sandbox.runCommand('echo', ['hello'])
  console.log(await done.stdout())
  await sandbox.stop()`

const without = (...names) => Object.fromEntries(Object.entries(process.env).filter(([name]) => !names.includes(name)))
const script = (text, env, ...args) => program(process.execPath, [...args, '--input-type=module', '-e', text], { env })

describe('roads', () => {
  for (const sdk of ['@vercel/sandbox', 'vercel-sandbox-2', 'vercel-sandbox-1', 'vercel-sandbox-0']) {
    test(`${sdk}: the preload file, with the OIDC token`, async () => {
      const ended = await script(`import { Sandbox } from '${sdk}'; const sandbox = await Sandbox.create(); ${WORK}`, process.env)
      assert.equal(ended.stdout.trim(), 'hello', ended.stderr)
    })
  }

  for (const sdk of ['@vercel/sandbox', 'vercel-sandbox-2', 'vercel-sandbox-1', 'vercel-sandbox-0']) {
    test(`${sdk}: nothing but VERCEL_TOKEN`, async () => {
      const ended = await script(`import { Sandbox } from '${sdk}'; const sandbox = await Sandbox.create(); ${WORK}`,
        without('ATOLL_API_KEY', 'VERCEL_OIDC_TOKEN', 'VERCEL_AUTH_TOKEN', 'VERCEL_TEAM_ID', 'VERCEL_PROJECT_ID'))
      assert.equal(ended.stdout.trim(), 'hello', ended.stderr)
    })
  }

  for (const sdk of ['@vercel/sandbox', 'vercel-sandbox-2', 'vercel-sandbox-1']) test(`${sdk}: the fetch parameter`, async () => {
    const ended = await script(`
      import { Sandbox } from '${sdk}'
      const toAtoll = (url, init) => fetch(String(url).replace('https://vercel.com', process.env.WHERE + '/vercel'), init)
      const sandbox = await Sandbox.create({ fetch: toAtoll, ...${JSON.stringify(CREDENTIALS)} }); ${WORK}`,
    { ...without('NODE_OPTIONS', 'ATOLL_URL', 'ATOLL_API_KEY'), WHERE: process.env.ATOLL_URL })
    assert.equal(ended.stdout.trim(), 'hello', ended.stderr)
  })

  test('the preload file: a WebSocket to a port', async () => {
    // It answers with the subprotocol, and says the path.
    const server = `
import base64, hashlib, socket
listening = socket.create_server(("0.0.0.0", 3000))
while True:
    client = listening.accept()[0]
    head = client.recv(65536).decode()
    lines = dict(line.lower().split(": ", 1) if i else ("", line) for i, line in enumerate(head.split("\\r\\n")) if not i or ": " in line)
    keys = [line.split(": ")[1] for line in head.split("\\r\\n") if line.lower().startswith("sec-websocket-key: ")]
    if not keys:
        client.close()
        continue
    accept = base64.b64encode(hashlib.sha1((keys[0] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    chosen = lines.get("sec-websocket-protocol")
    more = f"Sec-WebSocket-Protocol: {chosen}\\r\\n" if chosen else ""
    client.sendall(f"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: {accept}\\r\\n{more}\\r\\n".encode())
    said = lines[""].split()[1].encode()
    client.sendall(bytes([0x81, len(said)]) + said)
`
    const ended = await script(`
      import { Sandbox } from '@vercel/sandbox'
      const sandbox = await Sandbox.create({ ports: [3000] })
      await sandbox.writeFiles([{ path: 'server.py', content: Buffer.from(${JSON.stringify(server)}) }])
      await sandbox.runCommand({ cmd: 'python3', args: ['server.py'], detached: true })
      const open = (protocols) => new Promise((resolve) => {
        const socket = new WebSocket(sandbox.domain(3000).replace('https:', 'wss:') + '/path?x=1', protocols)
        socket.onmessage = (event) => { resolve([event.data, socket.protocol, socket instanceof WebSocket]); socket.close() }
        socket.onerror = () => resolve(undefined)
      })
      let answer
      for (let i = 0; i < 100 && !answer; i++) answer = await open() ?? await new Promise((resolve) => setTimeout(resolve, 50))
      console.log(JSON.stringify([answer, await open(['one'])]))
      await sandbox.stop()
      process.exit()`, process.env, ...(process.allowedNodeEnvironmentFlags.has('--experimental-websocket') ? ['--experimental-websocket'] : []))
    assert.deepEqual(JSON.parse(ended.stdout || 'null'), [['/path?x=1', '', true], ['/path?x=1', 'one', true]], ended.stderr)
  })

  test('the preload file: the module https, a Request object, names below localhost', async () => {
    const ended = await script(`
      import https, { get } from 'node:https'
      import http from 'node:http'
      const text = async (answer) => { let all = ''; for await (const part of answer) all += part; return [answer.statusCode, all] }
      const ask = (make) => new Promise((resolve, reject) => make((answer) => resolve(text(answer))).on('error', reject))
      const list = new URL('https://vercel.com/api/v2/sandboxes?namePrefix=none')
      const headers = { authorization: 'Bearer of another service', 'content-type': 'application/json' }
      const posted = (body) => ({ method: 'POST', headers, body: JSON.stringify(body) })
      const answers = [
        await ask((done) => https.get(list, done)),
        await ask((done) => get(String(list), { headers }, done)),
        await ask((done) => https.request({ hostname: 'vercel.com', path: list.pathname + list.search, headers }, done).end()),
        await ask((done) => https.request('https://vercel.com/api/v2/sandboxes', { method: 'POST', headers }, done).end('{"ports":5}')),
        await fetch(new Request(list, { headers })).then(async (a) => [a.status, await a.text()]),
        await fetch(new Request('https://vercel.com/api/v2/sandboxes', posted({ ports: 5 }))).then(async (a) => [a.status, await a.text()]),
        await ask((done) => http.get('http://name.localhost:' + new URL(process.env.ATOLL_URL).port + '/healthz', done)),
      ]
      console.log(JSON.stringify(answers))`, process.env)
    const empty = [200, '{"sandboxes":[],"pagination":{"count":0,"next":null}}']
    const answers = JSON.parse(ended.stdout || 'null')
    assert.ok(answers, ended.stderr)
    const refused = answers.splice(3, 1).concat(answers.splice(4, 1))
    const [names] = answers.splice(4)
    assert.deepEqual(answers.map(([status, body]) => [status, body.trim()]), [empty, empty, empty, empty])
    for (const [status, body] of refused) assert.ok(status === 400 && body.includes('ports'), body)
    assert.equal(names[0], 404, names[1]) // of the daemon, which serves no such name
  })

  test('a wrong key is explained', async () => {
    const ended = await script(`
      import { Sandbox } from '@vercel/sandbox'
      await Sandbox.create({ ...${JSON.stringify(CREDENTIALS)}, token: 'wrong' })`, without('ATOLL_API_KEY'))
    assert.match(ended.stderr, /401[^]*not a key of this Atoll/)
  })

  test('without ATOLL_URL the file does nothing', async () => {
    const ended = await script("const before = fetch; console.log(String(fetch).includes('native') || !String(fetch).includes('redirect'))",
      without('ATOLL_URL'))
    assert.equal(ended.stdout.trim(), 'true', ended.stderr)
  })

  // In a mount namespace with other names; without the file and its variables.
  test('DNS and TLS: the API, and a port by its domain', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'vercel-names-'))
    const [hosts, app] = [join(directory, 'hosts'), join(directory, 'app.mjs')]
    await writeFile(hosts, `127.0.0.1 localhost\n${process.env.ATOLL_TEST_NAMES} vercel.com api.vercel.com\n`)
    await writeFile(app, `
      import { appendFileSync } from 'node:fs'
      import { createRequire } from 'node:module'
      const load = createRequire(process.env.HERE)
      for (const name of ['@vercel/sandbox', 'vercel-sandbox-0']) {
        const { Sandbox } = load(name)
        const sandbox = await Sandbox.create({ ports: [3000] })
        ${WORK.replace('await sandbox.stop()', '')}
        appendFileSync('/etc/hosts', process.env.ATOLL_TEST_NAMES + ' ' + new URL(sandbox.domain(3000)).hostname + '\\n')
        await sandbox.runCommand({ cmd: 'python3', args: ['-m', 'http.server', '3000'], detached: true })
        let answer
        for (let i = 0; i < 100 && !answer?.ok; i++) {
          await new Promise((resolve) => setTimeout(resolve, 50))
          answer = await fetch(sandbox.domain(3000))
        }
        console.log(answer.status)
        await sandbox.stop()
      }`)
    const ended = await program('unshare', ['-m', 'sh', '-c', 'mount --bind "$1" /etc/hosts && exec "$2" "$3"', 'sh', hosts, process.execPath, app],
      { env: { ...without('NODE_OPTIONS', 'ATOLL_URL', 'ATOLL_API_KEY'), NODE_EXTRA_CA_CERTS: process.env.ATOLL_TEST_CA, HERE: import.meta.filename ?? process.argv[1] } })
    assert.deepEqual(ended.stdout.split(/\s+/).filter(Boolean), ['hello', '200', 'hello', '200'], ended.stderr)
  })
})
