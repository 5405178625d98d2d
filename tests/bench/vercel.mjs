// Times calls of Vercel's SDK against Atoll and against the two canned servers, in turns: ComputeSDK's time to
// interactive (create, and the first command), and the same with the stop.
//   node vercel.mjs ATOLL-URL CANNED-URL RAN-URL ROUNDS    prints one JSON object; RAN: the one that runs the command
import { createRequire } from 'node:module'
const require = createRequire(new URL('../conformance/vercel/package.json', import.meta.url))
const { Sandbox } = require('@vercel/sandbox')

const WARM_UP = 10
const [atoll, canned, ran, rounds] = process.argv.slice(2)
const credentials = { token: process.env.ATOLL_API_KEY, teamId: 'team', projectId: 'project' }
const clients = {}
for (const [name, url] of Object.entries({ atoll, canned, ran })) {
  clients[name] = (target, init) => fetch(String(target).replace('https://vercel.com', `${url}/vercel`), init)
}

async function life(client, params) {
  const start = performance.now()
  const sandbox = await Sandbox.create({ ...credentials, ...params, fetch: client })
  const { exitCode } = await sandbox.runCommand('node', ['-v'])
  const first = performance.now() - start
  if (exitCode !== 0) throw new Error(`node -v ended with ${exitCode}`)
  await sandbox.stop()
  const whole = performance.now() - start
  await sandbox.delete()
  return [first, whole]
}

const kinds = { life: { persistent: false }, kept: {} }
const samples = {}
const note = (name, ms) => (samples[name] ??= []).push(ms)

await new Promise((resolve) => setTimeout(resolve, 1500)) // the pool is full
for (const [kind, params] of Object.entries(kinds))
  for (let i = 0; i < Number(rounds) + WARM_UP; i++)
    for (const [name, client] of Object.entries(clients)) {
      const [first, whole] = await life(client, params)
      if (i < WARM_UP) continue
      note(`${kind}_${name}`, whole)
      note(`${kind}_first_${name}`, first)
    }
console.log(JSON.stringify(samples))
process.exit()
