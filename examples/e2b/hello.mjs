// E2B's SDK for JavaScript, as it comes from npm, with a sandbox of Atoll.
//   npm install @e2b/code-interpreter && node hello.mjs
// E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY say where the daemon is: see docs/e2b.md.
import { Sandbox } from '@e2b/code-interpreter'

const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { example: 'hello' } })
try {
  await sandbox.files.write('numbers.txt', '1\n2\n39\n')
  const { stdout } = await sandbox.commands.run('sort -rn numbers.txt | head -n 1')
  console.log('largest:', stdout.trim())

  const execution = await sandbox.runCode(`
with open('numbers.txt') as f:
    numbers = [int(line) for line in f]
print('read', len(numbers), 'numbers')
sum(numbers)`)
  console.log(execution.logs.stdout.join('').trim())
  console.log('sum:', execution.text)
} finally {
  await sandbox.kill()
}
process.exit() // the SDK's timers would keep Node waiting
