#pragma once
#include "base/error.h"

/*
 * Connectors: MCP servers that a tenant has stored by name. The definition is sealed: its variables and headers
 * may be credentials. Rows borrow their strings for the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_connector {
    const char *key; /* TENANT/NAME; set by the store */
    const char *tenant, *name;
    const char *definition; /* JSON; NULL: its key is lost */
    int64_t created_unix_ms, updated_unix_ms;
};

/* Adds the row, or replaces the one of the same tenant and name. */
int atoll_store_put_connector(struct atoll_store *store, const struct atoll_store_connector *row,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_connector(struct atoll_store *store, const char *tenant, const char *name,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for the rows of the tenant, by name; name NULL: of all. A negative result of fn stops the walk and is
 * returned. fn must not write to the store. */
int atoll_store_each_connector(struct atoll_store *store, const char *tenant, const char *name,
                               int (*fn)(void *arg, const struct atoll_store_connector *row,
                                         struct atoll_error *err),
                               void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
