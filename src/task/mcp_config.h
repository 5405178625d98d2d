#pragma once
#include <jansson.h>
#include "base/buf.h"

/*
 * Configurations of MCP servers as the programs of agents read them. Pure.
 */

/* Appends the configuration for these servers: an object of checked definitions (task/connectors.h) by name, whose
 * values are complete. form: claude, gemini, opencode (JSON) or codex (TOML), as the registry checks it. -ENOBUFS, -ENOMEM. */
int atoll_mcp_config_write(const char *form, const json_t *servers,
                           struct atoll_buf *out) ATOLL_MUST_CHECK;
