// Named sandboxes and their sessions, with the generations of the SDK that have them.
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { CREDENTIALS, NAMED, collect, creator, until } from './helpers.mjs'

const unique = () => `box-${Math.random().toString(36).slice(2, 10)}`

async function all(pages) {
  const items = []
  for await (const item of pages) items.push(item)
  return items
}

for (const [version, sdk] of Object.entries(NAMED)) {
  describe(version, () => {
    const create = creator(sdk)
    const { Sandbox } = sdk
    let sandbox, name
    before(async () => {
      name = unique()
      sandbox = await create({ name, timeout: 600_000, tags: { team: name }, env: { OWN: 'value' } })
    })

    test('what was asked for', async () => {
      assert.equal(sandbox.name, name)
      assert.equal(sandbox.status, 'running')
      assert.equal(sandbox.persistent, true)
      assert.equal(await (await sandbox.runCommand('sh', ['-c', 'echo $OWN'])).stdout(), 'value\n')
    })

    test('found by name and in the list', async () => {
      const found = await Sandbox.get({ ...CREDENTIALS, name })
      assert.equal(found.currentSession().sessionId, sandbox.currentSession().sessionId)
      const { sandboxes } = await Sandbox.list({ ...CREDENTIALS, tags: { team: name } })
      assert.deepEqual(sandboxes.map((each) => each.name), [name])
      await assert.rejects(Sandbox.get({ ...CREDENTIALS, name: 'no-such-sandbox' }), (error) => error.response.status === 404)
      await assert.rejects(Sandbox.create({ ...CREDENTIALS, name }), (error) => error.response.status === 409 || error.response.status === 400)
    })

    test('a stopped sandbox is resumed by the next command, with its files', async () => {
      await sandbox.writeFiles([{ path: 'kept.txt', content: Buffer.from('kept') }])
      const first = sandbox.currentSession().sessionId
      const { cmdId } = await sandbox.runCommand('echo', ['earlier'])
      await sandbox.stop()
      const done = await sandbox.runCommand('cat', ['kept.txt'])
      assert.equal(await done.stdout(), 'kept')
      const second = sandbox.currentSession().sessionId
      assert.notEqual(first, second)
      const { sessions } = await sandbox.listSessions()
      assert.deepEqual(new Set(sessions.map((session) => session.id)), new Set([first, second]))
      // What users of Vercel miss: output of commands of an earlier session.
      const response = await fetch(`https://vercel.com/api/v2/sandboxes/sessions/${first}/cmd/${cmdId}/logs`,
        { headers: { authorization: `Bearer ${CREDENTIALS.token}` } })
      assert.deepEqual(await response.text(), '{"stream":"stdout","data":"earlier\\n"}\n')
    })

    test('extendTimeout', async () => {
      const before = sandbox.currentSession().timeout
      await sandbox.extendTimeout(60_000)
      assert.equal(sandbox.currentSession().timeout, before + 60_000)
    })

    test('input of a running command', async () => {
      const session = sandbox.currentSession().sessionId
      const base = `https://vercel.com/api/v2/sandboxes/sessions/${session}`
      const post = (path, body) => fetch(base + path, { method: 'POST', body: JSON.stringify(body),
        headers: { authorization: `Bearer ${CREDENTIALS.token}`, 'content-type': 'application/json' } })
      const { command } = await (await post('/cmd', { command: 'cat', args: [], stdin: true })).json()
      assert.equal((await post(`/cmd/${command.id}/stdin`, { data: 'one\n' })).status, 200)
      assert.equal((await post(`/cmd/${command.id}/stdin`, { data: Buffer.from('two').toString('base64'), encoding: 'base64', eof: true })).status, 200)
      const again = await sandbox.getCommand(command.id)
      assert.equal((await again.wait()).exitCode, 0)
      assert.equal((await collect(again.logs())).stdout, 'one\ntwo')
    })

    test('a server inside is reached by its domain', async () => {
      const web = await create({ ports: [3000] })
      await web.writeFiles([{ path: 'index.html', content: Buffer.from('page of the sandbox') }])
      await web.runCommand({ cmd: 'python3', args: ['-m', 'http.server', '3000'], detached: true })
      assert.match(web.domain(3000), /^https:\/\/3000-[a-z0-9]+\.vercel\.run$/)
      const get = async (url) => {
        const response = await fetch(url).catch(() => undefined)
        return response?.ok ? response.text() : undefined
      }
      await until(async () => (await get(`${web.domain(3000)}/index.html`)) === 'page of the sandbox', 'the page')
    })

    test('deleted', async () => {
      const gone = await create()
      await gone.delete()
      await assert.rejects(Sandbox.get({ ...CREDENTIALS, name: gone.name }), (error) => error.response.status === 404)
    })
  })
}
