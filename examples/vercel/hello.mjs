// Vercel's SDK, as it comes from npm, with a sandbox of Atoll.
//   npm install @vercel/sandbox && eval "$(atoll vercel env)" && node hello.mjs
// See docs/vercel.md.
import { Sandbox } from '@vercel/sandbox'

const sandbox = await Sandbox.create({ tags: { example: 'hello' } })
try {
  await sandbox.writeFiles([{ path: 'numbers.txt', content: Buffer.from('1\n2\n39\n') }])
  const largest = await sandbox.runCommand('sh', ['-c', 'sort -rn numbers.txt | head -n 1'])
  console.log('largest:', (await largest.stdout()).trim())

  const sum = await sandbox.runCommand('awk', ['{ s += $1 } END { print s }', 'numbers.txt'])
  console.log('sum:', (await sum.stdout()).trim())
} finally {
  await sandbox.delete()
}
