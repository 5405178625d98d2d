#pragma once
#include <jansson.h>
#include "base/defs.h"

/*
 * JSON without memory. jansson 2.14 calls a text "invalid" then, so code that reads JSON of a size
 * that clients choose asks here for the difference. Two of its functions are not used at all:
 *
 *   json_load*  the lexer goes on without the bytes of a token that it found no room for (lex_save),
 *               and then fails an assertion or reads beyond the token: atoll_json_load
 *   json_dumps  leaves out parts of the name of a member: atoll_json_dump
 */

/* Once, before the first JSON. */
void atoll_json_memory_watch(void);
/* From here on, in this thread. */
void atoll_json_memory_begin(void);
/* Whether something of it found no memory. */
bool atoll_json_memory_failed(void);

/* json_loadb that looks for room for the whole text first. NULL without, and then
 * atoll_json_memory_failed. Memory that is refused later, in small pieces, ends the daemon. */
json_t *atoll_json_load(const void *bytes, size_t n, size_t flags,
                        json_error_t *why) ATOLL_MUST_CHECK;

/* Of a short text that the daemon wrote; NULL for "" and NULL. It does not fail: without memory the
 * daemon ends. */
json_t *atoll_json_load_own(const char *text);

/* The text, to be freed. NULL without memory for a part of it. */
char *atoll_json_dump(const json_t *value, size_t flags) ATOLL_MUST_CHECK;
