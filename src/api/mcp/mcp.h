#pragma once
#include "api/facade.h"

/*
 * The Model Context Protocol, by streamable HTTP at /mcp: any MCP client can use sandboxes as tools
 * (api/tool/). `atoll mcp` carries the same messages over standard input and output.
 *
 * The sandbox of a session is found by its name: it is "mcp-" and the beginning of the session's id, or "mcp"
 * for clients without a session. So sessions survive a restart of the daemon; their streams and subscriptions
 * do not (stream.h).
 *
 * An answer is one JSON object; if the client asked for progress and accepts an event stream, it is the last
 * event of one.
 */
extern const struct atoll_facade atoll_mcp_facade;
