// How the SDK finds the daemon: the file that Node loads, the fetch parameter, and names with TLS.
import assert from 'node:assert/strict'
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

  test('the fetch parameter', async () => {
    const ended = await script(`
      import { Sandbox } from '@vercel/sandbox'
      const toAtoll = (url, init) => fetch(String(url).replace('https://vercel.com', process.env.WHERE + '/vercel'), init)
      const sandbox = await Sandbox.create({ fetch: toAtoll, ...${JSON.stringify(CREDENTIALS)} }); ${WORK}`,
    { ...without('NODE_OPTIONS', 'ATOLL_URL', 'ATOLL_API_KEY'), WHERE: process.env.ATOLL_URL })
    assert.equal(ended.stdout.trim(), 'hello', ended.stderr)
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
})
