// The life of sandboxes: create with every option, connect, list, timeouts, pause, kill.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { E2B, Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { boxTest, rejection, until } from './helpers.mjs'

const seconds = (info) => (info.endAt - info.startedAt) / 1000

test('create with all options', async () => {
  const metadata = { owner: 'a b=c&d', run: randomUUID() }
  const box = await Sandbox.create('base', {
    timeoutMs: 120_000,
    metadata,
    envs: { COLOR: 'blue', EMPTY: '' },
    secure: true,
    allowInternetAccess: false,
    network: { allowPublicTraffic: false, maskRequestHost: 'example.com:${PORT}' },
    lifecycle: { onTimeout: 'pause', autoResume: true },
    apiHeaders: { 'X-Team': 'blue' },
    headers: { 'X-Trace': 'abc' },
    requestTimeoutMs: 30_000,
  })
  try {
    assert.match(box.sandboxId, /^[a-z0-9]+$/)
    assert.ok(box.trafficAccessToken)
    const info = await box.getInfo()
    assert.equal(info.sandboxId, box.sandboxId)
    assert.equal(info.name, 'base')
    assert.deepEqual(info.metadata, metadata)
    assert.equal(info.state, 'running')
    assert.deepEqual(info.lifecycle, { onTimeout: 'pause', autoResume: true })
    assert.equal(info.allowInternetAccess, false)
    assert.equal(info.network.maskRequestHost, 'example.com:${PORT}')
    assert.equal(info.network.allowPublicTraffic, false)
    assert.ok(Math.abs(seconds(info) - 120) < 30, `${seconds(info)} s`)
    assert.ok(info.cpuCount >= 1 && info.memoryMB >= 128)
    assert.match(info.envdVersion, /^\d+\.\d+\.\d+$/)
    const env = await box.commands.run('echo "$COLOR/$EMPTY/$E2B_SANDBOX/$E2B_SANDBOX_ID"')
    assert.equal(env.stdout, `blue//true/${box.sandboxId}\n`)
  } finally {
    assert.equal(await box.kill(), true)
  }
})

boxTest(Sandbox, 'the default time to live is five minutes', async (box) => {
  assert.ok(Math.abs(seconds(await box.getInfo()) - 300) < 30)
})

boxTest(Sandbox, 'connect, as a class and as an object', { timeoutMs: 60_000 }, async (box) => {
  await box.files.write('here.txt', 'yes')
  const before = (await box.getInfo()).endAt
  const again = await Sandbox.connect(box.sandboxId, { timeoutMs: 10_000 })
  assert.equal(again.sandboxId, box.sandboxId)
  assert.equal(await again.files.read('here.txt'), 'yes')
  assert.deepEqual((await again.getInfo()).endAt, before, 'connect never shortens')
  await again.connect({ timeoutMs: 600_000 })
  assert.ok((await again.getInfo()).endAt - before > 400_000)
})

test('connect to what is not there', async () => {
  const error = await rejection(Sandbox.connect('i0000000000000000000'), SandboxNotFoundError)
  assert.match(error.message, /i0000000000000000000/)
})

test('list in pages, by metadata, state, template and order', async () => {
  const run = randomUUID()
  const boxes = []
  for (const n of ['1', '2', '3']) boxes.push(await Sandbox.create({ metadata: { run, n } }))
  try {
    const pages = Sandbox.list({ query: { metadata: { run } }, limit: 2 })
    assert.equal(pages.hasNext, true)
    const first = await pages.nextItems()
    assert.deepEqual(first.map((s) => s.metadata.n), ['3', '2'], 'newest first')
    assert.equal(pages.hasNext, true)
    assert.ok(pages.nextToken)
    const second = await pages.nextItems()
    assert.deepEqual(second.map((s) => s.metadata.n), ['1'])
    assert.equal(pages.hasNext, false)

    const all = (opts) => Sandbox.list({ ...opts, query: { metadata: { run }, ...opts.query } }).nextItems()
    assert.deepEqual((await all({ order: 'asc' })).map((s) => s.metadata.n), ['1', '2', '3'])
    assert.equal((await all({ query: { metadata: { run, n: '2' } } }))[0].sandboxId, boxes[1].sandboxId)
    assert.equal((await all({ query: { template: 'no-such-template' } })).length, 0)
    assert.equal((await all({ query: { startedAfter: new Date(Date.now() + 60_000) } })).length, 0)
    await boxes[0].pause()
    assert.deepEqual((await all({ query: { state: ['paused'] } })).map((s) => s.metadata.n), ['1'])
    assert.deepEqual((await all({ query: { state: ['running'] } })).map((s) => s.metadata.n), ['3', '2'])
    await boxes[2].kill()
    assert.deepEqual((await all({})).map((s) => s.metadata.n), ['2', '1'], 'a killed one is gone at once')
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
})

test('kill', async () => {
  const box = await Sandbox.create()
  assert.equal(await box.isRunning(), true)
  assert.equal(await Sandbox.kill(box.sandboxId), true)
  assert.equal(await Sandbox.kill(box.sandboxId), false)
  assert.equal(await box.kill(), false)
  assert.equal(await box.isRunning(), false)
  await rejection(Sandbox.getInfo(box.sandboxId), SandboxNotFoundError)
})

boxTest(Sandbox, 'setTimeout moves the end both ways', async (box) => {
  await box.setTimeout(60_000)
  let left = (await box.getInfo()).endAt - Date.now()
  assert.ok(left > 0 && left < 62_000, `${left} ms`)
  await Sandbox.setTimeout(box.sandboxId, 900_000)
  left = (await box.getInfo()).endAt - Date.now()
  assert.ok(left > 800_000 && left < 905_000, `${left} ms`)
})

boxTest(Sandbox, 'it ends by itself', { timeoutMs: 1_000 }, async (box) => {
  await until(async () => !(await box.isRunning()), 'it is still there')
  await rejection(box.getInfo(), SandboxNotFoundError)
})

boxTest(Sandbox, 'pause keeps processes and memory', async (box) => {
  const counter = 'i=0; while true; do echo $((i+=1)) > /tmp/n; sleep 0.05; done'
  const handle = await box.commands.run(counter, { background: true })
  await until(() => box.files.exists('/tmp/n'))
  assert.equal(await box.pause(), true)
  assert.equal(await box.pause(), false, 'the second time there is nothing to do')
  assert.equal(await box.isRunning(), false)
  assert.equal((await box.getInfo()).state, 'paused')
  const woken = await box.connect({ timeoutMs: 60_000 })
  assert.equal(await woken.isRunning(), true)
  const then = Number(await woken.files.read('/tmp/n'))
  await until(async () => Number(await woken.files.read('/tmp/n')) > then, 'it does not go on')
  assert.ok((await woken.commands.list()).some((p) => p.pid === handle.pid))
})

boxTest(Sandbox, 'pause without memory is a fresh boot', async (box) => {
  const bootId = () => box.files.read('/proc/sys/kernel/random/boot_id')
  await box.files.write('kept.txt', 'kept')
  await box.commands.run('sleep 60', { background: true })
  const before = await bootId()
  assert.equal(await box.pause({ keepMemory: false }), true)
  await box.connect()
  assert.equal(await box.files.read('kept.txt'), 'kept')
  assert.notEqual(await bootId(), before)
  assert.deepEqual(await box.commands.list(), [])
})

boxTest(
  Sandbox,
  'a request wakes what slept at its deadline',
  { timeoutMs: 1_000, lifecycle: { onTimeout: 'pause', autoResume: true } },
  async (box) => {
    await until(async () => (await box.getInfo()).state === 'paused', 'it is not paused')
    // It sleeps again before long.
    await until(async () => {
      assert.equal((await box.commands.run('echo awake')).stdout, 'awake\n')
      return (await box.getInfo()).state === 'running'
    }, 'it does not run')
  }
)

boxTest(Sandbox, 'metrics', async (box) => {
  const metrics = await until(async () => {
    const found = await box.getMetrics()
    return found.length && found
  }, 'there are no metrics')
  const { cpuCount, memTotal, memUsed, diskTotal, diskUsed, timestamp } = metrics[0]
  assert.ok(cpuCount >= 1 && memTotal > memUsed && memUsed > 0)
  assert.ok(diskTotal > diskUsed && diskUsed >= 0)
  assert.ok(Math.abs(Date.now() - timestamp) < 60_000)
  const old = { start: new Date(Date.now() - 7200_000), end: new Date(Date.now() - 3600_000) }
  assert.deepEqual(await Sandbox.getMetrics(box.sandboxId, old), [])
})

boxTest(Sandbox, 'updateNetwork replaces the rules', async (box) => {
  await box.updateNetwork({ allowOut: ['8.8.8.8'], denyOut: ['0.0.0.0/0'] })
  let { network } = await box.getInfo()
  assert.deepEqual([network.allowOut, network.denyOut], [['8.8.8.8'], ['0.0.0.0/0']])
  await box.updateNetwork({ allowInternetAccess: false })
  network = (await Sandbox.getFullInfo(box.sandboxId)).network
  assert.ok(!network?.allowOut?.length)
  await rejection(box.updateNetwork({ denyOut: ['example.com'] }), SandboxError)
})

test('a client with options of its own', async () => {
  const client = new E2B({ apiKey: process.env.E2B_API_KEY, requestTimeoutMs: 20_000 })
  const box = await client.Sandbox.create({ metadata: { by: 'client' } })
  assert.equal((await box.getInfo()).metadata.by, 'client')
  assert.equal(await client.Sandbox.kill(box.sandboxId), true)
})

test('an idempotent end of a sandbox that was never there', async () => {
  await rejection(Sandbox.setTimeout('i0000000000000000000', 1000), SandboxNotFoundError)
  await rejection(Sandbox.pause('i0000000000000000000'), SandboxNotFoundError)
  await rejection(Sandbox.getMetrics('i0000000000000000000'), SandboxNotFoundError)
})

test('a snapshot that was never there', async () => {
  assert.equal(await Sandbox.deleteSnapshot('no-such-snapshot'), false)
})
