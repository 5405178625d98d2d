// The control plane, method by method.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { describe, test } from 'node:test'
import { SDKS, all, client, until } from './helpers.mjs'

for (const [name, sdk] of Object.entries(SDKS))
  describe(name, () => {
    const { daytona, create } = client(sdk)
    const unique = () => `t${Math.random().toString(36).slice(2)}`

    test('create returns a running sandbox with what was asked for', async () => {
      const called = unique()
      const sandbox = await create({
        name: called, language: 'typescript', labels: { a: 'b' }, envVars: { GREETING: 'hi' },
        autoStopInterval: 30, autoArchiveInterval: 60, autoDeleteInterval: 90,
      })
      assert.equal(sandbox.state, 'started')
      assert.equal(sandbox.name, called)
      assert.deepEqual(sandbox.labels, { a: 'b', 'code-toolbox-language': 'typescript' })
      assert.deepEqual(sandbox.env, { GREETING: 'hi' })
      assert.equal(sandbox.autoStopInterval, 30)
      assert.equal(sandbox.autoArchiveInterval, 60)
      assert.equal(sandbox.autoDeleteInterval, 90)
      assert.ok(sandbox.cpu > 0 && sandbox.memory > 0 && sandbox.disk > 0)
      const run = await sandbox.process.executeCommand('echo $GREETING')
      assert.equal(run.result.trim(), 'hi')
    })

    test('get by id and by name; a sandbox that does not exist', async () => {
      const called = unique()
      const sandbox = await create({ name: called })
      assert.equal((await daytona.get(sandbox.id)).id, sandbox.id)
      assert.equal((await daytona.get(called)).id, sandbox.id)
      await assert.rejects(daytona.get('no-such'), sdk.DaytonaNotFoundError)
    })

    test('stop keeps files and ends processes; start runs it again', async () => {
      const sandbox = await create()
      await sandbox.process.executeCommand('echo kept > file; sleep 1000 >/dev/null 2>&1 & true')
      await sandbox.stop()
      assert.equal(sandbox.state, 'stopped')
      await assert.rejects(sandbox.process.executeCommand('true'))
      await sandbox.start()
      assert.equal(sandbox.state, 'started')
      const run = await sandbox.process.executeCommand('cat file; pgrep -c sleep')
      assert.equal(run.result.trim(), 'kept\n0')
      await sandbox.start() // nothing to do
    })

    test('archive is for stopped sandboxes; start brings them back', async () => {
      const sandbox = await create()
      await assert.rejects(sandbox.archive(), /not stopped/)
      await sandbox.stop()
      await sandbox.archive()
      await sandbox.refreshData()
      assert.equal(sandbox.state, 'archived')
      await sandbox.start()
      assert.equal(sandbox.state, 'started')
    })

    test('an ephemeral sandbox ends when it is stopped', async () => {
      const sandbox = await create({ ephemeral: true })
      await sandbox.stop()
      await assert.rejects(daytona.get(sandbox.id), sdk.DaytonaNotFoundError)
    })

    test('delete; the name is free again at once', async () => {
      const called = unique()
      const sandbox = await create({ name: called })
      await sandbox.delete()
      await assert.rejects(daytona.get(called), sdk.DaytonaNotFoundError)
      assert.notEqual((await create({ name: called })).id, sandbox.id)
    })

    test('labels, intervals and activity', async () => {
      const sandbox = await create()
      assert.deepEqual(await sandbox.setLabels({ k: 'v' }), { k: 'v' })
      await sandbox.setAutostopInterval(10)
      await sandbox.setAutoArchiveInterval(20)
      await sandbox.setAutoDeleteInterval(-1)
      await sandbox.refreshActivity()
      await sandbox.refreshData()
      assert.deepEqual(sandbox.labels, { k: 'v' })
      assert.deepEqual([sandbox.autoStopInterval, sandbox.autoArchiveInterval, sandbox.autoDeleteInterval],
                       [10, 20, -1])
    })

    test('list: labels, states, pages', async () => {
      const mark = unique()
      const made = []
      for (let i = 0; i < 5; i++) made.push(await create({ labels: { mark, i: String(i) } }))
      await made[4].stop()
      const ids = (list) => list.map((s) => s.id).sort()
      const mine = await all(daytona.list({ labels: { mark } }))
      assert.deepEqual(ids(mine), ids(made))
      assert.deepEqual(ids(await all(daytona.list({ labels: { mark }, limit: 2 }))), ids(made))
      assert.deepEqual(ids(await all(daytona.list({ labels: { mark, i: '2' } }))), [made[2].id])
      assert.deepEqual(ids(await all(daytona.list({ labels: { mark }, states: ['stopped'] }))), [made[4].id])
    })

    test('what is refused, and as what', async () => {
      const called = unique()
      await create({ name: called })
      await assert.rejects(daytona.create({ name: called }), sdk.DaytonaConflictError)
      await assert.rejects(daytona.create({ snapshot: 'no-such' }), /Snapshot no-such not found/)
      await assert.rejects(daytona.create({ snapshot: 'daytona-small', resources: { cpu: 2 } }),
                           /resources when using a snapshot/)
      const stranger = new sdk.Daytona({ apiKey: 'wrong' })
      await assert.rejects(stranger.get('x'), sdk.DaytonaAuthenticationError)
      await stranger[Symbol.asyncDispose]()
    })

    test('previews: by token, signed, expired', async () => {
      const sandbox = await create()
      await sandbox.process.createSession('web')
      await sandbox.process.executeSessionCommand('web', {
        command: 'echo hello > index.html; python3 -m http.server 3000', runAsync: true })
      // The host names of previews are resolved by browsers; here they are sent to the daemon itself.
      const visit = async (url, headers = {}) => {
        const { host, pathname } = new URL(url)
        const http = await import('node:http')
        const at = new URL(process.env.DAYTONA_API_URL)
        return new Promise((resolve, reject) => {
          http.get({ host: at.hostname, port: at.port, path: pathname, headers: { ...headers, host } },
                   (answer) => {
                     let text = ''
                     answer.on('data', (chunk) => (text += chunk))
                     answer.on('end', () => resolve({ status: answer.statusCode, text }))
                   }).on('error', reject)
        })
      }
      const link = await sandbox.getPreviewLink(3000)
      await until(async () => (await visit(link.url, { 'x-daytona-preview-token': link.token })).status === 200,
                  'the server answers')
      assert.equal((await visit(link.url, { 'x-daytona-preview-token': 'wrong' })).status, 404)
      assert.equal((await visit(link.url)).status, 404)
      const signed = await sandbox.getSignedPreviewUrl(3000, 60)
      assert.equal((await visit(signed.url)).text, 'hello\n')
      await sandbox.expireSignedPreviewUrl(3000, signed.token)
      assert.notEqual((await visit(signed.url)).status, 200)
    })

    test('snapshots from a Dockerfile, with its log', async () => {
      const called = unique()
      const lines = []
      const snapshot = await daytona.snapshot.create(
        { name: called, image: sdk.Image.base('scratch').env({ MADE: 'here' }) },
        { onLogs: (line) => lines.push(line) })
      assert.equal(snapshot.state, 'active')
      assert.ok(lines.length > 0)
      assert.equal((await daytona.snapshot.get(called)).name, called)
      const listed = await daytona.snapshot.list()
      assert.ok(listed.items.some((item) => item.name === called) && listed.total > 1)
      await daytona.snapshot.delete(snapshot)
      await assert.rejects(daytona.snapshot.get(called), sdk.DaytonaNotFoundError)
    })

    test('forks and snapshots of a sandbox have its files', async () => {
      const sandbox = await create({ labels: { a: 'b' } })
      await sandbox.process.executeCommand('echo one > file')
      // Older versions call them experimental.
      const forked = await (sandbox.fork ?? sandbox._experimental_fork).call(sandbox, { name: unique() })
      assert.notEqual(forked.id, sandbox.id)
      assert.equal((await forked.process.executeCommand('cat file')).result.trim(), 'one')
      const called = unique()
      await (sandbox.createSnapshot ?? sandbox._experimental_createSnapshot).call(sandbox, called)
      const copy = await create({ snapshot: called })
      assert.equal((await copy.process.executeCommand('cat file')).result.trim(), 'one')
      await daytona.snapshot.delete(await daytona.snapshot.get(called))
      await assert.rejects(daytona.snapshot.get(called), sdk.DaytonaNotFoundError)
      await assert.rejects(create({ snapshot: called }), /not found/)
      assert.equal((await copy.process.executeCommand('cat file')).result.trim(), 'one')
      for (const made of [forked, copy]) await made.delete()
    })

    test('a build that fails says why', async () => {
      await assert.rejects(create({ image: sdk.Image.base('scratch').runCommands('true') }),
                           /build_failed|failed/)
    })

    test('SSH access is given and taken', async (t) => {
      const sandbox = await create()
      let access
      try {
        access = await sandbox.createSshAccess(5)
      } catch (error) {
        if (error.statusCode !== 501) throw error
        t.skip('atoll-ssh is not built: libssh is missing')
        return
      }
      assert.match(access.sshCommand, /^ssh /)
      assert.equal(access.sandboxId, sandbox.id)
      const seen = await sandbox.validateSshAccess(access.token)
      assert.deepEqual([seen.valid, seen.sandboxId], [true, sandbox.id])
      await sandbox.revokeSshAccess(access.token)
      assert.equal((await sandbox.validateSshAccess(access.token)).valid, false)
    })

    test('measurements of the present; those of the past are refused', async () => {
      const sandbox = await create()
      assert.ok((await sandbox.getMetricsLatest()).memUsed > 0)
      await assert.rejects(sandbox.getMetrics(), (error) => error.statusCode === 501 && /not kept/.test(error.message))
    })

    test('volumes by name', async () => {
      const called = unique()
      const volume = await daytona.volume.create(called)
      assert.equal(volume.state, 'ready')
      assert.ok((await daytona.volume.list()).some((v) => v.name === called))
      assert.equal((await daytona.volume.get(called)).id, volume.id)
      await daytona.volume.delete(volume)
      await assert.rejects(daytona.volume.get(called), sdk.DaytonaNotFoundError)
      assert.equal((await daytona.volume.get(called, true)).name, called)
    })

    test('a script that ends with a living sandbox does not wait', async () => {
      // Node ends when no timer and no socket holds it. Without events, timers of the SDK do for minutes. What is
      // still being connected is done within some more requests; what waits for a time is not.
      const script = `import { setImmediate } from 'node:timers/promises'
        import { Daytona } from '${name}'
        const daytona = new Daytona()
        const sandbox = await daytona.create()
        console.log(sandbox.id)
        const holding = () => process.getActiveResourcesInfo().filter((what) => what !== 'PipeWrap') // our pipe
        for (let i = 0; i < 20 && holding().length > 0; i++) {
          await daytona.get(sandbox.id)
          await setImmediate()
        }
        console.log(holding().join() || 'free')`
      const child = spawn('node', ['--input-type=module', '-e', script],
                          { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'], timeout: 60_000, killSignal: 'SIGKILL' })
      let said = ''
      child.stdout.on('data', (bytes) => { said += bytes })
      const code = await new Promise((resolve) => child.on('close', resolve))
      const [id, free] = said.split('\n')
      await (await daytona.get(id)).delete()
      assert.deepEqual([code, free], [0, 'free'])
    })
  })
