#pragma once
#include <jansson.h>
#include "base/error.h"
#include "network/policy.h"

/*
 * Which downloads never change, so that they can be kept: URLs by host and path (registry/downloads.yaml).
 * A table is the JSON of that file: {"downloads": [{"name", "hosts": [TARGET, …], "paths": [GLOB, …],
 * "digest": "sha256" | "blake2b-256"}, …]}.
 *
 * Pure.
 */
struct atoll_cache_table;

#define ATOLL_CACHE_ROWS_MAX 200
#define ATOLL_CACHE_ROW_MAX 50 /* hosts of a row, and paths */

/* What the content of a URL must have, if that is known before. */
enum atoll_cache_digest {
    ATOLL_CACHE_NO_DIGEST,
    ATOLL_CACHE_SHA256,
    ATOLL_CACHE_BLAKE2B,
};
#define ATOLL_CACHE_DIGEST_BYTES 32 /* of both */

struct atoll_cache_expected {
    enum atoll_cache_digest kind;
    uint8_t bytes[ATOLL_CACHE_DIGEST_BYTES];
};

/* INVALID_ARGUMENT names the row and the field. */
int atoll_cache_table_parse(const json_t *json, struct atoll_cache_table **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct atoll_cache_table *atoll_cache_table_free(struct atoll_cache_table *table);

/* Whether a row has this host. table may be NULL. */
bool atoll_cache_table_has_host(const struct atoll_cache_table *table, const char *name,
                                uint16_t port);
/* Whether the download at this target (origin form) of the host never changes. Not one with a query, or
 * with a path that another one stands for ("/a/../b", "%2e"). A row with a digest matches only a path
 * that has one: components of hexadecimal digits, one after the other, of 64 digits in all. */
bool atoll_cache_table_find(const struct atoll_cache_table *table, const char *name, uint16_t port,
                            const char *target, struct atoll_cache_expected *ret);

/* 64 hexadecimal digits. */
bool atoll_cache_digest_parse(const char *text, size_t n, uint8_t out[ATOLL_CACHE_DIGEST_BYTES]);
