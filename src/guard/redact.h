#pragma once
#include <jansson.h>
#include "base/buf.h"

/*
 * Arguments of calls for records: without what looks like a secret, and not larger than a record may be. A secret
 * is known by its name (password, token, API key …), by its place (user:password@ in a URL, Authorization), or by its
 * beginning (sk-, ghp_ …); one that is none of that stays. Pure.
 */
#define ATOLL_GUARD_ARGS_MAX ((size_t)8192) /* of the JSON */

/* Whether the value of something of that name is a secret. */
bool atoll_guard_is_secret_name(const char *name, size_t n);
/* Appends the text with secrets replaced. */
int atoll_guard_redact_text(const char *text, size_t n, struct atoll_buf *out) ATOLL_MUST_CHECK;
/* Malloced JSON of at most ATOLL_GUARD_ARGS_MAX bytes; long texts are cut. NULL: out of memory. */
char *atoll_guard_redact(const json_t *args);
