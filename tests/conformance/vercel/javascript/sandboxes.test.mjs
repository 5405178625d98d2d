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

    test('a server inside is reached by its domain and by the URL of its route', async () => {
      const web = await create({ ports: [3000] })
      await web.writeFiles([{ path: 'index.html', content: Buffer.from('page of the sandbox') }])
      await web.runCommand({ cmd: 'python3', args: ['-m', 'http.server', '3000'], detached: true })
      assert.match(web.domain(3000), /^https:\/\/3000-[a-z0-9]+\.vercel\.run$/)
      const get = async (url) => {
        const response = await fetch(url).catch(() => undefined)
        return response?.ok ? response.text() : undefined
      }
      await until(async () => (await get(`${web.domain(3000)}/index.html`)) === 'page of the sandbox', 'the page')
      const [{ url, subdomain }] = web.routes
      assert.match(url, /^http:\/\/3000-[a-z0-9]+\.localhost:\d+\/$/)
      assert.equal(await get(`${url}index.html`), 'page of the sandbox')
      const [, port, id] = subdomain.match(/^(\d+)-(.+)$/)
      assert.equal(await get(`${process.env.ATOLL_URL}/preview/${id}/${port}/index.html`), 'page of the sandbox')
    })

    test('settings are changed; a longer timeout is one for the running session', async () => {
      const changed = await create({ timeout: 300_000, ports: [3000] })
      await changed.update({ timeout: 360_000, tags: { a: 'b' }, ports: [8080], resources: { vcpus: 1 } })
      assert.deepEqual([changed.timeout, changed.tags], [360_000, { a: 'b' }])
      assert.equal(changed.currentSession().timeout, 360_000)
      assert.match(changed.domain(8080), /^https:\/\/8080-/)
      await changed.update({ timeout: 300_000 })
      assert.equal(changed.currentSession().timeout, 360_000)
    })

    test('a fork has the files and settings of its source', async () => {
      const source = await create({ tags: { kind: 'source' }, env: { OWN: 'source' } })
      await source.writeFiles([{ path: 'file', content: Buffer.from('of the source') }])
      await source.stop()
      const fork = await Sandbox.fork({ ...CREDENTIALS, sourceSandbox: source.name, timeout: 120_000 })
      try {
        assert.deepEqual([fork.tags, fork.timeout, fork.sourceSnapshotId], [{ kind: 'source' }, 120_000, source.currentSnapshotId])
        assert.equal(await (await fork.runCommand('sh', ['-c', 'cat file; echo " $OWN"'])).stdout(), 'of the source source\n')
      } finally {
        await fork.delete()
      }
    })

    test('images of Vercel\'s, of which some are here', async () => {
      for (const image of ['vercel/sandbox/node:24', 'vcr.vercel.com/vercel/sandbox/universal:latest']) {
        const made = await create({ image })
        assert.equal(made.image, image)
        assert.equal(await (await made.runCommand('id', ['-un'])).stdout(), 'vercel-sandbox\n')
        await made.stop()
        const fork = await Sandbox.fork({ ...CREDENTIALS, sourceSandbox: made.name })
        try {
          assert.equal(fork.image, image)
        } finally {
          await fork.delete()
        }
      }
      await assert.rejects(Sandbox.create({ ...CREDENTIALS, image: 'vercel/sandbox/ubuntu' }),
        (error) => error.response.status === 400 && /docker\.io\/library\/ubuntu/.test(error.json.error.message))
    })

    test('snapshots: taken, found, listed, a root of others, deleted', async () => {
      const { Snapshot } = sdk
      const source = await create()
      await source.writeFiles([{ path: 'file', content: Buffer.from('one') }])
      const taken = await source.snapshot({ expiration: 86_400_000 })
      assert.equal(taken.status, 'created')
      const found = await Snapshot.get({ ...CREDENTIALS, snapshotId: taken.snapshotId })
      assert.equal(found.sourceSessionId, taken.sourceSessionId)
      assert.equal(found.expiresAt - found.createdAt > 80_000_000, true)
      const { snapshots } = await Snapshot.list({ ...CREDENTIALS, name: source.name })
      assert.deepEqual(snapshots.map((each) => each.id), [taken.snapshotId])
      const other = await create({ source: { type: 'snapshot', snapshotId: taken.snapshotId } })
      assert.equal(String(await other.readFileToBuffer({ path: 'file' })), 'one')
      await assert.rejects(taken.delete(), (error) => error.response.status === 400)
      await other.delete()
      await source.delete()
      await taken.delete()
      assert.equal(taken.status, 'deleted')
      await assert.rejects(Sandbox.create({ ...CREDENTIALS, source: { type: 'snapshot', snapshotId: taken.snapshotId } }),
        (error) => error.response.status === 410)
    })

    test('users and groups', async () => {
      const shared = await create()
      const out = async (who, ...args) => (await (await who.runCommand(...args)).stdout()).trim()
      const [ann, ben] = [await shared.createUser('ann'), await shared.createUser('ben')]
      await shared.createGroup('team')
      for (const user of [ann, ben]) await user.addToGroup('team')
      assert.equal(await out(ann, 'id', ['-un']), 'ann')
      assert.match(await out(ben, 'id', ['-Gn']), /\bteam\b/)
      await ann.writeFiles([{ path: 'note', content: Buffer.from('of ann') }])
      assert.equal(String(await ann.readFileToBuffer({ path: 'note' })), 'of ann')
      assert.equal(await out(shared, 'stat', ['-c', '%U', `${ann.homeDir}/note`]), 'ann')
      await ben.removeFromGroup('team')
      assert.doesNotMatch(await out(ben, 'id', ['-Gn']), /\bteam\b/)
      await assert.rejects(shared.createUser('ann'))
    })

    if (sdk.Drive) test('a drive outlives sandboxes', async () => {
      const { Drive } = sdk
      const drive = await Drive.getOrCreate({ ...CREDENTIALS, name: unique() })
      assert.equal((await Drive.getOrCreate({ ...CREDENTIALS, name: drive.name })).driveId, drive.driveId)
      const write = await create({ mounts: { '/mnt/data': drive } })
      assert.equal((await write.runCommand({ cmd: 'sh', args: ['-c', 'echo kept >/mnt/data/f'], sudo: true })).exitCode, 0)
      await assert.rejects(write.update({ mounts: {} }), (error) => error.response.status === 400)
      await write.delete()
      const read = await create({ mounts: { '/mnt/data': { drive: drive.name, mode: 'read-only' } } })
      assert.equal(await (await read.runCommand('cat', ['/mnt/data/f'])).stdout(), 'kept\n')
      assert.notEqual((await read.runCommand({ cmd: 'touch', args: ['/mnt/data/g'], sudo: true })).exitCode, 0)
      const { drives } = await Drive.list({ ...CREDENTIALS })
      assert.ok(drives.some((each) => each.name === drive.name))
      await read.delete()
      await drive.delete()
    })

    test('one that is there, or a new one', async () => {
      const wanted = { ...CREDENTIALS, name: unique(), timeout: 120_000 }
      const created = []
      const getOrCreate = () => Sandbox.getOrCreate({ ...wanted, resume: true, onCreate: async (each) => { created.push(each.currentSession().sessionId) } })
      const session = (each) => each.currentSession().sessionId
      const first = await getOrCreate()
      assert.equal(session(await getOrCreate()), session(first))
      await first.delete()
      const second = await getOrCreate()
      assert.notEqual(session(second), session(first))
      // Its files are gone with their snapshot: it is made anew.
      await (await second.snapshot()).delete()
      const third = await getOrCreate()
      assert.equal((await third.runCommand('true')).exitCode, 0)
      assert.deepEqual(created, [session(first), session(second), session(third)])
      await third.delete()
    })

    test('deleted', async () => {
      const gone = await create()
      await gone.delete()
      await assert.rejects(Sandbox.get({ ...CREDENTIALS, name: gone.name }), (error) => error.response.status === 404)
    })
  })
}
