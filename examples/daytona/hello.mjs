// Daytona's SDK for TypeScript, as it comes from npm, with a sandbox of Atoll.
//   npm install @daytonaio/sdk && node hello.mjs
// DAYTONA_API_URL and DAYTONA_API_KEY say where the daemon is: see docs/daytona.md.
import { Daytona } from '@daytonaio/sdk'

const daytona = new Daytona()
const sandbox = await daytona.create({ language: 'python', labels: { example: 'hello' } })
try {
  await sandbox.fs.uploadFile(Buffer.from('1\n2\n39\n'), 'numbers.txt')
  const largest = await sandbox.process.executeCommand('sort -rn numbers.txt | head -n 1')
  console.log('largest:', largest.result.trim())

  const run = await sandbox.process.codeRun('print(sum(int(line) for line in open("numbers.txt")))')
  console.log('sum:', run.result.trim())
} finally {
  await sandbox.delete()
}
