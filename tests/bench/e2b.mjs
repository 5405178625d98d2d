// Times calls of E2B's SDK against Atoll and against the canned server, in turns.
//   node e2b.mjs ATOLL-URL CANNED-URL ROUNDS BURST    prints one JSON object
const sdk = new URL('../conformance/e2b/node_modules/@e2b/code-interpreter/dist/index.mjs', import.meta.url)
const { Sandbox } = await import(sdk)

const WARM_UP = 10
const CROWDS = 4
const [atoll, canned, rounds, burst] = process.argv.slice(2)
const places = { atoll, canned }
const create = (url) => Sandbox.create('base', { apiUrl: url, sandboxUrl: url })

async function timed(body) {
  const start = performance.now()
  await body()
  return performance.now() - start
}

async function life(url) {
  const box = await create(url)
  const { exitCode } = await box.commands.run('true')
  if (exitCode !== 0 || !(await box.kill())) throw new Error(`a sandbox of ${url} did not work`)
}

async function code(box) {
  const { text } = await box.runCode('1+1')
  if (text !== '2') throw new Error(`1+1 is ${text}`)
}

// The pool is full again.
const settle = () => new Promise((resolve) => setTimeout(resolve, 1500))

const samples = {}
const note = (name, ms) => (samples[name] ??= []).push(ms)

await settle()
const kept = {}
for (const [name, url] of Object.entries(places)) kept[name] = await create(url)
// One kind after the other: what a killed sandbox leaves to be cleared away is not the interpreter's.
const calls = { life: (name) => life(places[name]), code: (name) => code(kept[name]) }
for (const [kind, call] of Object.entries(calls)) {
  for (let i = 0; i < Number(rounds) + WARM_UP; i++) {
    for (const name of Object.keys(places)) {
      const ms = await timed(() => call(name))
      if (i >= WARM_UP) note(`${kind}_${name}`, ms)
    }
  }
}

// Creates alone, one after the other.
for (let i = 0; i < Number(rounds); i++) {
  let box
  note('single', await timed(async () => { box = await create(atoll) }))
  await box.kill()
}

// Many at once. A first crowd is not counted: it is where the client opens its connections.
async function crowd(name, url, counted) {
  await settle()
  const made = await Promise.allSettled(Array.from({ length: Number(burst) }, async () => {
    let box
    const ms = await timed(async () => { box = await create(url) })
    if (counted) note(`burst_${name}`, ms)
    return box
  }))
  const boxes = made.filter((m) => m.status === 'fulfilled').map((m) => m.value)
  await Promise.all(boxes.map((box) => box.kill()))
  const failed = made.find((m) => m.status === 'rejected')?.reason
  return { alive: boxes.length, error: failed && String(failed) }
}

let worst = { alive: Number(burst) }
for (let i = 0; i <= CROWDS; i++) {
  await crowd('canned', canned, i > 0)
  const made = await crowd('atoll', atoll, i > 0)
  if (made.alive < worst.alive) worst = made
}
await Promise.all(Object.values(kept).map((box) => box.kill()))
console.log(JSON.stringify({ samples, ...worst }))
process.exit()
