#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "base/error.h"

/*
 * Connectors: MCP servers by name, stored for each tenant, that tasks give to their agents. A definition is what
 * programs write in "mcpServers": {"command", "args", "env", "cwd"} is started in the sandbox, {"url", "type", "headers"} is
 * elsewhere. Values of env and headers may name secrets: ${secret.NAME}. "oauth" of those elsewhere: task/oauth.h.
 *
 * Blocking: as store/connectors.h. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_CONNECTORS_MAX 100 /* of one tenant */
#define ATOLL_CONNECTOR_BYTES_MAX ((size_t)64 * 1024)

/* 1 to 64 characters of A-Z a-z 0-9 _ and -: agents make names of tools from it. */
bool atoll_connector_is_name(const char *text);
/* Whether it defines a server. where: its name in the text of the error. INVALID_ARGUMENT. */
int atoll_connector_check(const json_t *definition, const char *where,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Puts the values of secrets into the texts of `env` or `headers` (NULL: nothing to do). get() appends a value, and
 * returns false if there is no such secret. server: its name in errors. FAILED_PRECONDITION. */
typedef bool atoll_connector_get_fn(void *arg, const char *name, struct atoll_buf *out);
int atoll_connector_fill(const char *server, json_t *map, atoll_connector_get_fn *get, void *arg,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same with the secrets of the tenant. */
int atoll_connectors_fill(struct atoll_store *store, const char *tenant, const char *server,
                          json_t *map, struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_connector_view {
    const char *name;
    const json_t *definition; /* with its values: show names of env and headers only */
    int64_t created_unix_ms, updated_unix_ms;
};

/* Where the connectors of a daemon with these tasks are. */
struct atoll_tasks;
struct atoll_store *atoll_tasks_store(const struct atoll_tasks *tasks);

/* Stores a checked definition. Returns 1 if the connector is new, else 0. ALREADY_EXISTS, unless `replace`;
 * RESOURCE_EXHAUSTED. */
int atoll_connectors_put(struct atoll_store *store, const char *tenant, const char *name,
                         const json_t *definition, bool replace,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* NOT_FOUND. */
int atoll_connectors_remove(struct atoll_store *store, const char *tenant, const char *name,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for each connector of the tenant, by name. */
int atoll_connectors_each(struct atoll_store *store, const char *tenant,
                          void (*fn)(void *arg, const struct atoll_connector_view *view), void *arg,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* The definition, owned by the caller. NOT_FOUND; DATA_LOSS: its key is lost. */
int atoll_connectors_find(struct atoll_store *store, const char *tenant, const char *name,
                          struct atoll_connector_view *ret, json_t **ret_definition,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
