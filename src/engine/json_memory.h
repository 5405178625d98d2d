#pragma once
#include <jansson.h>
#include "base/defs.h"

/*
 * JSON when memory runs out. jansson 2.14 reports a text as invalid in that case. Code that parses
 * JSON whose size clients choose distinguishes the two errors with these functions. Two functions
 * of jansson have worse failures and are replaced:
 *
 *   json_load*  the lexer drops bytes of a token that it has no memory for (lex_save), and then fails
 *               an assertion or reads beyond the token: use atoll_json_load
 *   json_dumps  omits parts of a member's name: use atoll_json_dump
 */

/* Installs the allocator that records failures. Call once, before any JSON is used. */
void atoll_json_memory_watch(void);
/* Clears the record of this thread. */
void atoll_json_memory_begin(void);
/* Whether an allocation of this thread failed since then. */
bool atoll_json_memory_failed(void);

/* json_loadb() after a check that memory for the whole text is available. If not, returns NULL and
 * atoll_json_memory_failed() is true. A failure of the small allocations after that ends the
 * daemon. */
json_t *atoll_json_load(const void *bytes, size_t n, size_t flags,
                        json_error_t *why) ATOLL_MUST_CHECK;

/* Parses a short text that the daemon wrote; NULL for "" and NULL. Out of memory ends the
 * daemon. */
json_t *atoll_json_load_own(const char *text);

/* The text, malloced; NULL: out of memory. */
char *atoll_json_dump(const json_t *value, size_t flags) ATOLL_MUST_CHECK;
