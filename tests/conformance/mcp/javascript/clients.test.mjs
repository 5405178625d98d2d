// The official client for JavaScript, over HTTP and over standard input and output.
import assert from "node:assert";
import { test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const { ATOLL_URL, ATOLL_API_KEY, ATOLL_TEST_CLI } = process.env;
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(`${ATOLL_URL}/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${ATOLL_API_KEY}` } },
  }),
  stdio: () => new StdioClientTransport({ command: ATOLL_TEST_CLI, args: ["mcp"], env: process.env }),
};

async function withClient(kind, run) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transports[kind]());
  try {
    return await run(client);
  } finally {
    await client.close();
  }
}

const call = (client, name, args = {}, options) =>
  client.callTool({ name, arguments: args }, undefined, options);

for (const kind of Object.keys(transports)) {
  test(`${kind}: tools`, () => withClient(kind, async (client) => {
    assert.equal(client.getServerVersion().name, "atoll");
    const { tools } = await client.listTools();
    assert.ok(tools.every((tool) => tool.inputSchema.type === "object"));
    await call(client, "write_file", { path: "note", content: "kept" });
    const ran = await call(client, "run_command", { command: "cat note; exit 2" });
    assert.deepEqual([ran.isError, ran.content[0].text], [true, "kept\nexit code 2\n"]);
    assert.equal(ran.structuredContent.exit_code, 2);
    const code = await call(client, "run_code", { code: "6 * 7" });
    assert.match(code.content[0].text, /42/);
    await call(client, "upload_file", { path: "bytes", content: "AP8=" });
    await call(client, "move_file", { source: "bytes", destination: "moved" });
    const got = await call(client, "download_file", { path: "moved" });
    assert.deepEqual([got.structuredContent.encoding, got.structuredContent.content], ["base64", "AP8="]);
    assert.equal((await call(client, "delete_file", { path: "moved" })).isError, false);
    await call(client, "run_command", { command: "git init -qb main repo" });
    const status = await call(client, "git_status", { path: "repo" });
    assert.equal(status.structuredContent.branch, "main");
    const box = (await call(client, "sandbox_info")).structuredContent;
    assert.equal((await call(client, "execute_command", { id: box.id, command: "echo theirs" })).content[0].text, "theirs\n");
    await assert.rejects(call(client, "run_command", {}), /command is missing/);
    await assert.rejects(call(client, "fly", {}), /there is no tool fly/);
  }));

  test(`${kind}: resources`, () => withClient(kind, async (client) => {
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.match(resourceTemplates[0].uriTemplate, /^atoll:/);
    await call(client, "write_file", { path: "/home/user/file", content: "text" });
    const { name } = (await call(client, "sandbox_info")).structuredContent;
    const read = await client.readResource({ uri: `atoll://${name}/home/user/file` });
    assert.equal(read.contents[0].text, "text");
  }));

  test(`${kind}: subscriptions`, () => withClient(kind, async (client) => {
    const updated = new Promise((resolve) => {
      client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri));
    });
    const { name } = (await call(client, "sandbox_info")).structuredContent;
    const uri = `atoll://${name}/home/user/watched`;
    await client.subscribeResource({ uri });
    await call(client, "write_file", { path: "watched", content: "new" });
    assert.equal(await updated, uri);
    await client.unsubscribeResource({ uri });
  }));

  test(`${kind}: progress and cancellation`, () => withClient(kind, async (client) => {
    const abort = new AbortController();
    const running = call(client, "run_command", { command: "exec -a endless sleep 600" },
      { signal: abort.signal, onprogress: () => abort.abort("enough") });
    await assert.rejects(running, /enough/);
    for (;;) {
      const left = await call(client, "run_command", { command: "pgrep -f '^endles[s]' | wc -l" });
      if (left.content[0].text === "0\n") break;
    }
  }));
}

test("a stream that breaks is resumed", async () => {
  // The connection of the first event stream of a call is cut after its first event.
  let cut = false;
  const transport = new StreamableHTTPClientTransport(new URL(`${ATOLL_URL}/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${ATOLL_API_KEY}` } },
    fetch: async (url, init) => {
      const answer = await fetch(url, init);
      if (cut || init.method !== "POST" || answer.headers.get("content-type") !== "text/event-stream") return answer;
      cut = true;
      const reader = answer.body.getReader();
      const pieces = [];
      while (!pieces.join("").includes("id: ")) pieces.push(new TextDecoder().decode((await reader.read()).value));
      await reader.cancel();
      return new Response(`${pieces.join("")}\n\n`, { headers: answer.headers });
    },
  });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const ran = await call(client, "run_command", { command: "sleep 0.5; echo still here" }, { onprogress: () => {} });
  assert.equal(ran.content[0].text, "still here\n");
  assert.ok(cut);
  await transport.terminateSession();
  await client.close();
});
