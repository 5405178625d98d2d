// Times calls of Daytona's SDK against Atoll and against the canned server, in turns.
//   node daytona.mjs ATOLL-URL CANNED-URL ROUNDS    prints one JSON object
import { createRequire } from 'node:module'
const require = createRequire(new URL('../conformance/daytona/package.json', import.meta.url))
const { Daytona } = require('@daytonaio/sdk')

const WARM_UP = 10
const [atoll, canned, rounds] = process.argv.slice(2)
const clients = {}
for (const [name, apiUrl] of Object.entries({ atoll, canned })) clients[name] = new Daytona({ apiUrl })

// The first command's answer, and the end.
async function life(daytona, params) {
  const start = performance.now()
  const sandbox = await daytona.create(params)
  const { exitCode } = await sandbox.process.executeCommand('true')
  const first = performance.now() - start
  if (exitCode !== 0) throw new Error(`true ended with ${exitCode}`)
  await sandbox.delete()
  return [first, performance.now() - start]
}

// An ephemeral sandbox ends when it is stopped, and may come from the pool; any other has a disk that is kept.
const kinds = { life: { ephemeral: true }, kept: {} }
const samples = {}
const note = (name, ms) => (samples[name] ??= []).push(ms)

await new Promise((resolve) => setTimeout(resolve, 1500)) // the pool is full
for (const [kind, params] of Object.entries(kinds))
  for (let i = 0; i < Number(rounds) + WARM_UP; i++)
    for (const [name, daytona] of Object.entries(clients)) {
      const [first, whole] = await life(daytona, { ...params })
      if (i < WARM_UP) continue
      note(`${kind}_${name}`, whole)
      if (name === 'atoll') note(`${kind}_first`, first)
    }
console.log(JSON.stringify(samples))
process.exit()
